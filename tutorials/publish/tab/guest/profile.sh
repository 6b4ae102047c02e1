# The terminal is xterm.js, in a page. It is told where a command begins (PS0) and ends, and that a
# line can be typed (PS1), by the signs that terminals have for it (OSC 133, "semantic prompts").
export HOME=/root TERM=xterm-256color LANG=C.UTF-8 LESS=-R
PS0='\e]133;C\a'
PS1="\\[\\e]133;B\\a\\]$PS1"
PROMPT_COMMAND='printf "\e]133;D\a"'
cd
