"""`/search`."""

from __future__ import annotations

from workhook.http import lists
from workhook.http.calls import Call
from workhook.http.endpoints import Listed, Routes
from workhook.http.operations import WORK_API
from workhook.identity.authenticator import actor_of
from workhook.work.access import find_access
from workhook.work.search import queries
from workhook.work.search.match import words_of
from workhook.work.search.schemas import SearchAnswer, SearchQuery, search_result

routes = Routes(WORK_API, "Search", read="work.read", write="work.write")


@routes.get("/search", problems=(404,), etag=False)
async def search(call: Call, query: SearchQuery) -> Listed[SearchAnswer]:
    """Search tasks, files, comments and replies in every project that the caller sees.

    The newest come first; without `per_page` there are 30 on a page. What was deleted is not found; what is in
    archived projects is. Text without spaces between words, as in Chinese or Japanese, is found by the beginning of
    what stands between two spaces or punctuation marks. Of each kind no more than the newest 50 that the caller
    sees are found: `incomplete_results` says whether there are more, and more words, `type` and `project_id` narrow
    it down. A search that takes seconds is given up with 503.
    """
    after = lists.after(query, queries.ResultKey)
    actor, words = actor_of(call), words_of(query.q)
    project_id = query.project_id if isinstance(query.project_id, str) else None
    if project_id is not None:
        await find_access(call.database, actor, project_id)  # 404, rather than nothing found
    found = await queries.search(
        call.database, actor, words, kinds=query.kinds, project_id=project_id, after=after, limit=query.limit
    )
    rows, headers = lists.page(call, found.rows, query, queries.key_of, last_seen=found.more_behind)
    results = [search_result(row, words) for row in rows]
    return Listed(SearchAnswer(results, incomplete_results=found.incomplete), headers)
