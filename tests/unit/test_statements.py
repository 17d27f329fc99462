"""No subquery names a table in the FROM of an enclosing query, and the check of this rule can fail."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scripts import statement_rules
from scripts.statement_rules import Clash, clashes, refuse
from workhook.hooks.tables import hooks
from workhook.identity.tables import grants, memberships
from workhook.storage import dialects
from workhook.storage.statements import Compiler, PerDialect


def test_every_statement_of_the_package_follows_the_rule() -> None:
    found = list(statement_rules.statements())
    names = {name.partition("[")[0] for name, _ in found}
    assert {"workhook.hooks.removal._left_alone", "workhook.work.people.clients._with_address"} <= names
    assert any(isinstance(each, PerDialect) for _, each in found)
    assert len(found) > 400
    assert list(statement_rules.violations(found)) == []


@pytest.fixture
def cross_join() -> sa.Select[tuple[int]]:
    """Return the statement that let webhooks outlive a consent. Its inner EXISTS is correlated with `grants` but not
    `hooks`."""
    owner = sa.exists().where(
        memberships.c.organization_id == hooks.c.account_id, memberships.c.user_id == grants.c.user_id
    )
    return sa.select(hooks.c.id).where(~sa.exists().where(grants.c.app_id == hooks.c.app_id, owner))


def test_an_uncorrelated_subquery_is_found(cross_join: sa.Select[tuple[int]]) -> None:
    [told] = statement_rules.violations([("here", cross_join)])
    assert told.startswith("here: a subquery names hooks, as a query around it does")
    by_dialect = PerDialect(sqlite=sa.select(hooks.c.id), postgresql=cross_join)
    assert len(list(statement_rules.violations([("here", by_dialect)]))) == 1


def test_statements_compiled_in_tests_are_checked(cross_join: sa.Select[tuple[int]]) -> None:
    with pytest.raises(statement_rules.Clash, match="a subquery names hooks"):
        Compiler(dialects.SQLITE)(cross_join)


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM a WHERE EXISTS (SELECT * FROM b WHERE b.x = a.x)", []),
        ("SELECT * FROM a WHERE EXISTS (SELECT * FROM b, a WHERE b.x = a.x)", ["a"]),
        ("SELECT * FROM a WHERE EXISTS (SELECT * FROM b WHERE EXISTS (SELECT 1 FROM c, A))", ["a"]),
        ("SELECT * FROM a WHERE x IN (SELECT x FROM a AS other)", []),
        ('SELECT * FROM "a" WHERE x IN (SELECT x FROM public.a)', ["a"]),
        ("SELECT * FROM b AS a JOIN c ON c.x = (SELECT max(x) FROM a)", ["a"]),
        ("SELECT (SELECT 1 FROM a), 'FROM b' FROM a LEFT OUTER JOIN (c JOIN d ON c.x = d.x) ON 1", ["a"]),
        ("SELECT 1 FROM a LEFT OUTER JOIN (c JOIN d ON c.x = d.x) ON EXISTS (SELECT 1 FROM d)", ["d"]),
        ("SELECT 1 FROM (SELECT * FROM a) AS one JOIN a ON one.x = a.x", []),
        ("SELECT 1 FROM b WHERE EXISTS (SELECT 1 FROM (SELECT * FROM b) AS one)", ["b"]),
        ("SELECT x FROM a UNION SELECT x FROM a", []),
        ("SELECT x FROM a WHERE x IN (SELECT x FROM b UNION ALL SELECT x FROM a)", ["a"]),
        ("WITH d AS (SELECT x FROM a WHERE x IN (SELECT x FROM b)) SELECT x FROM a, d", []),
        ("WITH d AS (SELECT x FROM a WHERE x IN (SELECT x FROM a)) SELECT x FROM d", ["a"]),
        ("DELETE FROM a WHERE x IN (SELECT x FROM a LIMIT 5)", ["a"]),
        ("UPDATE a SET x = (SELECT max(x) FROM a) FROM b WHERE b.x IN (SELECT x FROM b)", ["a", "b"]),
        ("INSERT INTO a (x) SELECT x FROM a", []),
        ("SELECT 1 FROM a WHERE x IS NOT DISTINCT FROM (SELECT max(x) FROM c) AND y = extract(year FROM a)", []),
        ("SELECT 1 FROM a, json_each((SELECT y FROM a)) AS e", ["a"]),
        ("SELECT 1 FROM a JOIN LATERAL (SELECT 1 FROM b WHERE b.x = a.x) AS one ON true", []),
    ],
)
def test_clashing_table_names_are_found(sql: str, names: list[str]) -> None:
    assert clashes(sql) == names


def test_a_join_within_an_outer_join_is_refused() -> None:
    """SQLite would materialize all its rows, of every tenant."""
    with pytest.raises(Clash, match="one table after the other"):
        refuse("SELECT 1 FROM a LEFT OUTER JOIN (b JOIN c ON c.id = b.c_id) ON b.a_id = a.id")
    refuse("SELECT 1 FROM a LEFT OUTER JOIN (SELECT id FROM b) AS some ON some.id = a.id")
    refuse("SELECT 1 FROM a LEFT OUTER JOIN b ON b.a_id = a.id LEFT OUTER JOIN c ON c.id = b.c_id")
