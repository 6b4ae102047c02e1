// Sizes, in pixels: of the lanes from above to below, and of the picture from left to right.

const TOP = 6;        // above the first lane
const LANE = 64;      // from one lane to the next
const HEAD = 24;      // above a band: the number and the name of its stage
const BAND = 28;      // the band of a stage, as high as the marks of events
const FOOT = 26;      // below the last band: notes, what failed, the numbers of milestones
const GUTTER = 64;    // between the first lane and the second: the names of messages
const ROW = 15;       // one row of those names
const LETTER = 7.4;   // the width of a letter of an event's name
const DIGIT = 19;     // the width of a stage's number
const LEFT = 92;      // the names of the actors
const RIGHT = 24;
const MOST = 160000;  // the widest picture
