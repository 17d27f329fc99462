"""HTTP without users: operations, routing, problems, paging, the OpenAPI document."""
