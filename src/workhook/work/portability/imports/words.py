"""Names of columns, priorities, fields and answers in tables and boards.

The languages are English, German, French, Spanish, Italian, Dutch and Portuguese. All sources share these names and so
recognize the same ones.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping

from workhook.work.board.tasks.schemas import Level, Stage

STAGES: Mapping[Stage, tuple[str, ...]] = {
    "done": (
        "done", "completed", "complete", "finished",
        "fertig", "erledigt", "abgeschlossen", "fertiggestellt",
        "terminé", "terminée", "terminés", "terminées", "achevé", "fini", "fait", "faits",
        "hecho", "hecha", "hechos", "terminado", "terminada", "completado", "completada", "finalizado", "finalizada",
        "fatto", "fatti", "completato", "completata", "finito", "terminato",
        "klaar", "gereed", "afgerond", "voltooid", "gedaan",
        "concluído", "concluída", "concluídos", "concluido", "concluida", "feito", "feita",
    ),
    "in_progress": (
        "doing", "in progress",
        "in arbeit", "in bearbeitung",
        "en cours",
        "en curso", "en progreso", "en proceso",
        "in corso",
        "bezig", "mee bezig",
        "em andamento", "em curso", "em progresso", "fazendo",
    ),
    "in_queue": (
        "to do", "todo", "backlog",
        "zu erledigen", "zu tun",
        "à faire",
        "por hacer", "pendiente", "pendientes",
        "da fare",
        "te doen",
        "a fazer", "por fazer", "pendente", "pendentes",
    ),
}  # fmt: skip
"""Names of columns by stage."""

LEVELS: Mapping[Level, tuple[str, ...]] = {
    "high": (
        "high", "hoch", "haute", "haut", "élevée", "élevé", "alta", "alto", "hoog", "hoge",
        "urgent", "dringend", "dringlich", "urgente",
    ),
    "medium": (
        "medium", "normal", "mittel", "moyenne", "moyen", "normale", "media", "medio", "gemiddeld", "normaal", "média",
        "médio",
    ),
    "low": (
        "low", "niedrig", "gering", "basse", "bas", "faible", "baja", "bajo", "bassa", "basso", "laag", "lage",
        "baixa", "baixo",
    ),
}  # fmt: skip
URGENT = ("urgent", "dringend", "dringlich", "urgente")
"""Priorities that say more than their level, and are therefore kept as a field as well."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "title": (
        "title", "name", "task", "task name", "summary", "subject", "titel", "aufgabe", "betreff", "titre", "tâche",
        "título", "tarea", "titolo", "attività", "compito", "taak", "tarefa",
    ),
    "description": (
        "description", "notes", "body", "details", "beschreibung", "notizen", "descripción", "notas", "descrizione",
        "note", "beschrijving", "notities", "descrição",
    ),
    "column": (
        "status", "column", "list", "section", "section column", "state", "stage", "spalte", "liste", "abschnitt",
        "statut", "colonne", "estado", "columna", "lista", "stato", "colonna", "kolom", "lijst", "coluna",
    ),
    "assignee": (
        "assignee", "assignees", "assigned to", "zuständig", "bearbeiter", "zugewiesen an", "assigné à", "responsable",
        "asignado a", "assegnato a", "toegewezen aan", "responsável", "atribuído a",
    ),
    "due": (
        "due", "due date", "due on", "due at", "deadline", "target date", "fällig", "fällig am", "fälligkeit",
        "fälligkeitsdatum", "frist", "échéance", "date d'échéance", "fecha límite", "fecha de vencimiento",
        "vencimiento", "scadenza", "data di scadenza", "vervaldatum", "einddatum", "prazo", "data de vencimento",
    ),
    "labels": (
        "labels", "label", "tags", "tag", "etiketten", "schlagwörter", "étiquettes", "etiquetas", "etichette",
        "marcadores",
    ),
    "estimate": (
        "estimate", "estimate hours", "estimated hours", "estimate h", "estimate minutes", "aufwand", "schätzung",
    ),
    "priority": ("priority", "priorität", "priorité", "prioridad", "priorità", "prioriteit", "prioridade"),
    "completed": (
        "completed", "completed at", "completed on", "done", "erledigt", "erledigt am", "abgeschlossen",
        "abgeschlossen am", "fertig", "terminé", "terminé le", "hecho", "completado", "fatto", "completato", "klaar",
        "voltooid", "concluído",
    ),
    "created": (
        "created", "created at", "created on", "erstellt", "erstellt am", "créé", "créé le", "creado", "creato",
        "gemaakt", "aangemaakt", "criado", "criado em",
    ),
    "parent": ("parent", "parent id", "parent task"),
    "blocked_by": ("blocked by", "blocked by dependencies"),
    "id": ("id", "key", "task id", "issue key", "schlüssel"),
}  # fmt: skip
"""Names of fields by meaning."""

YES: Collection[str] = (
    "true", "yes", "x", "1", "ja", "oui", "sí", "si", "sì", "sim", "wahr", "vrai", "verdadero", "vero", "waar",
    "verdadeiro", *STAGES["done"],
)  # fmt: skip
NO: Collection[str] = (
    "", "false", "no", "0", "nein", "non", "nee", "não", "nao", "falsch", "faux", "falso", "onwaar",
)  # fmt: skip
HOURS: Collection[str] = ("h", "hour", "hours", "stunden")
MINUTES: Collection[str] = ("m", "min", "minutes", "minuten")


def plain_name(name: str) -> str:
    """Normalize the case of a name, and remove symbols and emoji: `✅ Done!` becomes `done`."""
    whole = unicodedata.normalize("NFC", name).casefold()
    return " ".join(re.findall(r"\w+", whole)) or whole.strip()


def header_key(name: str) -> str:
    """Normalize the name of a field: `Due_Date:` becomes `due date`."""
    return plain_name(name.replace("_", " "))


FIELD_KEYS: Mapping[str, Collection[str]] = {meaning: [*map(header_key, names)] for meaning, names in FIELDS.items()}
_STAGE_OF = {plain_name(name): stage for stage, names in STAGES.items() for name in names}
_LEVEL_OF = {plain_name(name): level for level, names in LEVELS.items() for name in names}


class StageNames:
    def __init__(self, done: Collection[str] = (), not_done: Collection[str] = ()) -> None:
        """Override the usual meaning of column names.

        Tasks in columns named in `done` count as finished, and those in columns named in `not_done` as unfinished.
        Exact names take precedence over similar ones.
        """
        self._exactly = {**dict.fromkeys(not_done, False), **dict.fromkeys(done, True)}
        self._plainly = {plain_name(name): is_done for name, is_done in self._exactly.items()}

    def stage_of(self, name: str) -> Stage | None:
        plain = plain_name(name)
        is_done = self._exactly.get(name, self._plainly.get(plain))
        if is_done:
            return "done"
        stage = _STAGE_OF.get(plain)
        return None if stage == "done" and is_done is False else stage


def level_of(text: str) -> Level | None:
    return _LEVEL_OF.get(plain_name(text))


def says_more(text: str) -> bool:
    """Return whether a priority says more than its level."""
    return plain_name(text) in URGENT


def has_meaning(meaning: str, name: str) -> bool:
    """Return whether a field of this name has the meaning, which is a key of `FIELDS`."""
    return header_key(name) in FIELD_KEYS[meaning]
