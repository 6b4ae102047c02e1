// The saved state of the machine: a line that says what it is of, then zstd's frame, as v86 reads it.

import { Trouble } from "./said.js";
import { t } from "./words.js";

const SIGN = "minirun tab 1 ";

const TABLE = new Uint32Array(256).map((_, n) => {
  for (let bit = 0; bit < 8; bit += 1) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});

/** CRC-32 as zlib has it. */
export function crc32(bytes) {
  let sum = ~0;
  for (let n = 0; n < bytes.length; n += 1) sum = TABLE[(sum ^ bytes[n]) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

/** Take a state apart, and return v86's part of it. `wanted`: {kernel, minirun, v86}, and others. */
export function unpack(bytes, wanted) {
  const end = bytes.indexOf(10);
  const line = new TextDecoder().decode(bytes.subarray(0, Math.max(end, 0)));
  if (!line.startsWith(SIGN)) throw new Trouble(t("notOne"));
  const about = JSON.parse(line.slice(SIGN.length));
  for (const part of ["kernel", "minirun", "v86", "disk"]) {
    if (about[part] !== wanted[part]) {
      throw new Trouble(t("otherVersion", part, about[part], wanted[part]));
    }
  }
  const state = bytes.subarray(end + 1);
  if (state.length !== about.bytes || crc32(state) !== about.crc32) {
    throw new Trouble(t("damaged", state.length, about.bytes));
  }
  return state;
}
