"""Running a model of a file that nobody vouches for: in a process of its own, with bounds on memory and time.

A graph of a few bytes can ask for any amount of both (an endless Loop, a Tile by 2^40), and a runtime can crash on it. While a
`bounds.Guard` is in force, every `Session` opens its model in one helper process (`process`, and inside of it `server`), which is
ended when it takes too long, and which has as much memory as the guard allows. What passes between the processes (`messages`) is
plain data, never a pickle. A rebuilt model, which runs in this process, ends itself (`deadline`).
"""
