"""HTTP without users: operations, routing, problems, paging and the OpenAPI document."""
