// Keeps the end of a new time entry where it was preset, now, when the duration changes, until the start is edited.
import { Controller } from "stimulus"

const MINUTE_MS = 60000
const BARE_HOURS_MAX = 24 // larger ones may be minutes

export default class extends Controller {
  static targets = ["start", "duration"]

  follow() {
    const start = this.startTarget
    const before = minutes(this.durationTarget.defaultValue)
    const now = minutes(this.durationTarget.value)
    if (start.value !== (this.set ?? start.defaultValue) || before === null || now === null) return
    // As UTC, because the value has no time zone.
    const at = new Date(`${start.defaultValue}Z`).getTime() + (before - now) * MINUTE_MS
    start.value = this.set = new Date(at).toISOString().slice(0, 16)
  }
}

// The usual forms of durations.py, or null for any other.
function minutes(text) {
  const typed = text.trim().toLowerCase().replace(",", ".")
  const clock = /^(\d{0,3}):([0-5]?\d)(?::([0-5]?\d))?$/.exec(typed)
  if (clock) return Math.ceil(Number(clock[1]) * 60 + Number(clock[2]) + Number(clock[3] ?? 0) / 60)
  const units = /^(?:(\d*\.?\d+)\s*h)?\s*(?:(\d*\.?\d+)\s*m(?:in)?)?$/.exec(typed)
  if (typed && units) return Math.ceil(Number(units[1] ?? 0) * 60 + Number(units[2] ?? 0))
  return /^\d*\.?\d+$/.test(typed) && Number(typed) <= BARE_HOURS_MAX ? Math.ceil(Number(typed) * 60) : null
}
