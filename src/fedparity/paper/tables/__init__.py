"""The paper's tables and figures as recipes: rows, blocks of runs, what is stored of each, and files made from that.

A table is blocks; a block is one set-up (a spec without methods) with rows and seeds; a cell is one row with one seed:
the measures of one run. Cells are stored as they are done and never done again, and every file is written from them.
"""
