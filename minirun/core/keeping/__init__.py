"""What binds the book together and is not its plot: records, JSON, files and folders.

A reader may skip this folder, and come back when a name leads here.

    record              a tuple with named fields: what the rooms pass to each other
    jsonlite            JSON, without json's cost at every start
    numbers             whole numbers, from a text
    visible             text as it may be printed on a terminal
    settings            the global flags
    choices             what the caller's flags chose, and config.json may not choose
    places              every file and folder that minirun keeps
    directories         a container's directory, from its making to its removal
    container_record    the fields of state.json, one by one; docker's are in common/docker_record
    field_types         what each type of a field has to be
    state, state_file   how it is written and read, from one command to the next
"""
