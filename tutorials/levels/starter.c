/* A beginning of the ladder in C: its command line is read, and so is JSON; the rest is yours.
 * `minirun level start 0 --in c` writes a copy of it. Build it so: cc -D_GNU_SOURCE -o mine 00_process.c
 *
 * fork and clone: glibc's clone(2) wants a stack for the child. syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0)
 * copies the process as fork does, with new namespaces. pivot_root(2) is such a call, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A flag of the command line: "--hostname" "box". */
struct flag { const char *name, *value; };

enum { MOST_FLAGS = 32 };

/* These stand alone; each other flag has a value, the next word. */
static const char *without_value[] = {
    "--all", "--force", "--systemd-cgroup", "--no-pivot", "--no-new-keyring", NULL};

/* End this process with a line on standard error. */
static void fail(int status, const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(status);
}

/* Take the flags that stand before the first other word. Returns all words after them. */
static char **parse(char **words, struct flag flags[MOST_FLAGS])
{
    int count = 0;

    for (; *words && **words == '-' && count < MOST_FLAGS - 1; words++, count++) {
        const char **alone = without_value;
        while (*alone && strcmp(*alone, *words))
            alone++;
        flags[count] = (struct flag){*words, ""};
        if (!*alone && !(flags[count].value = *++words))
            fail(1, "the last flag needs a value");
    }
    flags[count] = (struct flag){NULL, NULL};
    return words;
}

/* The value of a flag; another one if it was not given. */
__attribute__((unused))
static const char *value_of(const struct flag *flags, const char *name, const char *otherwise)
{
    for (; flags->name; flags++)
        if (!strcmp(flags->name, name))
            return flags->value;
    return otherwise;
}

/* A small reader of JSON, for config.json and a hook's state. A value is where it begins in the text:
 *
 *     const char *args = json_member(json_member(text, "process"), "args");
 *     for (int n = 0; json_item(args, n); n++)
 *         puts(json_string(json_item(args, n)));
 *
 * Too simple: the text must be right, and of \u only what is ASCII is known. */

static const char *json_blank(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Return where a value ends. */
static const char *json_end(const char *at)
{
    int depth = 0;

    at = json_blank(at);
    do {
        if (*at == '"')
            for (at++; *at && *at != '"'; at++)
                at += *at == '\\' && at[1];
        else if (*at == '[' || *at == '{')
            depth++;
        else if (*at == ']' || *at == '}')
            depth--;
        else if (!depth)
            return at + strcspn(at, ",]} \t\r\n");
        at += *at != 0;
    } while (*at && depth);
    return at;
}

/* Return the n-th value of an array; NULL if there are fewer, or there is no array. */
__attribute__((unused))
static const char *json_item(const char *array, int n)
{
    if (!array || *(array = json_blank(array)) != '[' || *(array = json_blank(array + 1)) == ']')
        return NULL;
    for (; n; n--) {
        array = json_blank(json_end(array));
        if (*array != ',')
            return NULL;
        array = json_blank(array + 1);
    }
    return array;
}

/* Return a text, or a number, as a new string; NULL of NULL. */
static char *json_string(const char *value)
{
    char *text, *to;

    if (!value)
        return NULL;
    value = json_blank(value);
    const char *end = json_end(value);
    to = text = malloc(end - value + 1);
    if (*value != '"') {
        memcpy(text, value, end - value);
        text[end - value] = 0;
        return text;
    }
    for (value++; *value && *value != '"'; value++) {
        static const char escapes[] = "n\nt\tr\rb\bf\f";
        if (*value != '\\') {
            *to++ = *value;
            continue;
        }
        const char *known = *++value ? strchr(escapes, *value) : NULL;
        if (*value == 'u') {
            char digits[5] = "";
            strncpy(digits, value + 1, 4);
            *to++ = (char)strtol(digits, NULL, 16);
            value += strlen(digits);
        } else {
            *to++ = known ? known[1] : *value;
        }
    }
    *to = 0;
    return text;
}

/* Return a member of an object; NULL if there is none of this name, or there is no object. */
__attribute__((unused))
static const char *json_member(const char *object, const char *name)
{
    if (!object || *(object = json_blank(object)) != '{')
        return NULL;
    for (object = json_blank(object + 1); *object == '"'; object = json_blank(object + 1)) {
        char *own = json_string(object);
        int is_it = !strcmp(own, name);
        free(own);
        object = json_blank(json_end(object)) + 1; /* behind the colon */
        if (is_it)
            return json_blank(object);
        object = json_blank(json_end(object));
        if (*object != ',')
            return NULL;
    }
    return NULL;
}

static int run(const struct flag *flags, char **words)
{
    (void)flags, (void)words;
    fail(1, "level 0: run is not written yet");
    return 1;
}

int main(int argc, char **argv)
{
    struct flag before[MOST_FLAGS], flags[MOST_FLAGS];
    char **words = parse(argv + (argc > 0), before); /* from level 9 on there are such flags */

    if (!*words)
        fail(1, "usage: run [FLAGS] COMMAND ...");
    char **rest = parse(words + 1, flags);
    if (strcmp(*words, "run"))
        fail(1, "no such command");
    if (!*rest)
        fail(1, "run: a command is missing");
    return run(flags, rest);
}
