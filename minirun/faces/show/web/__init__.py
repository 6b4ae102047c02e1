"""`run --step --web`: a stepped run on a page in the browser, which grows as the run goes on.

    face     what the controller talks to: a face like the terminal's
    server   HTTP on this machine's loopback address alone
    board    what there is to see now, for the server's threads

What there is to see now is on a board (minirun.faces.show.web.board), for the threads of the
server. Who has the presenter's address has the buttons; who has the viewers' address looks on.
"""
