"""The service: search, rerank, compare, explain and find similar documents over HTTP, with a page for people.

Parameters that mean the same in all modules: `app`, the FastAPI application that routes are added to; `service`, what routes
call; `served`, the opened index of a request; `parameters` and `request`, those of a request; `docid`, the id of a document;
`name`, that of an index; `candidates`, `result` and `after`, the list that is answered; `data`, an answer as plain data.
"""
