// Asks a small address whether a page is out of date, at most once a second while somebody looks at it, and refreshes
// it if so. The longer nothing comes, the less often it asks.
import { Controller } from "stimulus"
import { isUnderWay } from "workhook/morphing"
import { refresh } from "workhook/refresh"
import { tellIfEnded } from "workhook/stale"

const SOONEST_MS = 1000
const LATEST_MS = 5000
const SLOWER = 1.2

export default class extends Controller {
  static values = { url: String, mark: String }

  connect() {
    this.asks = true
    this.wait = SOONEST_MS
    this.seen = () => { if (!document.hidden) this.soon() }
    document.addEventListener("visibilitychange", this.seen)
    this.plan()
  }

  disconnect() {
    this.asks = false // the element may stay, in a page that has nothing to ask any more
    clearTimeout(this.timer)
    document.removeEventListener("visibilitychange", this.seen)
  }

  markValueChanged() {
    this.wait = SOONEST_MS
  }

  soon() {
    this.wait = SOONEST_MS
    this.plan()
  }

  plan() {
    clearTimeout(this.timer)
    if (!document.hidden) this.timer = setTimeout(() => this.ask(), this.wait)
  }

  async ask() {
    this.wait = Math.min(LATEST_MS, this.wait * SLOWER)
    try {
      const response = await fetch(this.urlValue, { headers: { Accept: "text/plain" } })
      // Signed out, or deleted: asking on would not help.
      if (!response.ok || response.redirected) return await tellIfEnded()
      const mark = await response.text()
      if (this.asks && mark !== this.markValue && !isUnderWay()) {
        refresh()
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error // the server is away for a moment
    }
    if (this.asks) this.plan()
  }
}
