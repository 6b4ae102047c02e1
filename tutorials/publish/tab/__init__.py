"""The tab: a real Linux, with minirun, in a browser: `make tab`.

"""
