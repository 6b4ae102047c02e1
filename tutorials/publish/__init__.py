"""What publishes the course: the programs behind the Makefile's targets, and no test.

Each is called from the folder of the repository, `.venv/bin/python -m tutorials.publish.NAME`; the
words after it choose lessons, or recordings. Tests import these modules as they import minirun: the
.venv has the folder of the repository among its paths.

  notebooks      make notebooks   notebooks/, and what the lessons ship; opening.LANGUAGE.md is
                                  what each notebook says of its use
  assignment     make assignment  the labs for nbgrader
  levels         make levels      the programs of the ladder, from one text
  quotes         make quotes      what the pages quote of the tree, written anew
  slides         make slides      a page of slides for each lesson
  site           make site        the pages; pages/ has what Sphinx reads, and the frames
  tab            make tab         a real Linux with minirun, in a browser
  reference      make reference   the pages in tutorials/reference that are counted or collected:
                                  api, commands, conformance (its rows: table.py), docker, events
                  make path       the functions of a start: one_start, start, tracer
  man            make man         build/man, from the tables of --help
  recordings     make recordings  minirun/faces/recordings

Below them:
  source         the parts of a lesson's Markdown
  runner         runs the shell blocks of a text, and compares what they print
  play           plays a notebook in a kernel
  contents       which pages the site has, and their lists
  played         a notebook as a page of the site
  lite           JupyterLite, for the site
  in_tab         the buttons of lessons that run in the tab
  links          looks at every link of the site
  surroundings   the mounts and cgroups of a plain Debian machine, and no private names

The pictures are drawn by `minirun replay --svg`: make pictures.
"""
