"""What an update of a hook has changed, for the audit log: the names of the fields, and what they were. No secret."""

from __future__ import annotations

from workhook.core.vault import Vault
from workhook.hooks.records import Hook

Changes = dict[str, object]


def changes_of(old: Hook, new: Hook, vault: Vault) -> Changes:
    """`changed`: the fields, such as `active`, `config.url` and `config.secret`. `before`: the values of those that are
    no secrets, without those of a hook that only an OAuth app sees. `secrets`: what became of `config.secret` and
    `config.password`, each `set`, `changed` or `removed`."""
    plain = {name: getattr(old, name) for name in ("active", "events") if getattr(old, name) != getattr(new, name)}
    config = {f"config.{name}": old.config.get(name) for name in _differing(old.config, new.config)}
    secrets = {
        f"config.{name}": done
        for name, before, after in (("secret", old.secret, new.secret), ("password", old.password, new.password))
        if (done := _became(vault.open(before), vault.open(after)))
    }
    changed = [*plain, *config, *secrets]
    if "config.secret" not in secrets and vault.open(old.previous_secret) != vault.open(new.previous_secret):
        changed.append("config.previous_secret")  # the same secret was set again, and the one before signs no more
    before = plain if old.only_app is not None else plain | config
    return {"changed": changed, **({"before": before} if before else {}), **({"secrets": secrets} if secrets else {})}


def _differing(old: dict[str, str], new: dict[str, str]) -> list[str]:
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _became(before: str | None, after: str | None) -> str | None:
    """None: it is what it was."""
    if before == after:
        return None
    return "set" if before is None else "removed" if after is None else "changed"
