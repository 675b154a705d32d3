"""Every run that was made on this computer, kept in one SQLite database, and what became of it.

`database` opens, makes and migrates the file; `layout` holds its tables; `store` keeps, finds and
forgets runs; `days` tells daily medians; `drift` finds where a level changed; `trend` answers.
"""
