"""The tab: a real Linux with minirun, in a page of a browser: `make tab` writes build/site/tab.

The emulator v86 executes i386 in WebAssembly. Debian's kernel is started in it once, by node, and
what the machine then is, memory and all, is saved; the page takes that up, in seconds. The page
asks its own folder alone. It works from any web server: python3 -m http.server -d build/site.

  root      Debian's packages, minirun's source, the images: the machine's files
  image     in the machine's root: makes the image `ubuntu`
  disk      the disk in parts, and the initrd
  page      the folder of the page, put together
  machine   the machine without a browser, in node: a command is typed, and its output read
  tried     tries lessons, levels and labs in it; called by hand, it takes hours
  runs      runs.toml, what of them runs, and the pages of the reference written from it

Beside them: guest/, what the machine executes; boot.mjs, which starts it and types warm.sh;
terminal.mjs, its terminal in node;
page/, what a browser reads; package.json, the versions of what comes from npm.
"""
