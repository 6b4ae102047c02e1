# The terminal is xterm.js, in a page.
export HOME=/root TERM=xterm-256color LANG=C.UTF-8 LESS=-R
cd
