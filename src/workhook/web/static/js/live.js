// Listens to what happens in a project, and refreshes the page. Several events within a moment cause one refresh.
import { Controller } from "stimulus"
import { isUnderWay } from "workhook/morphing"
import { refresh } from "workhook/refresh"
import { tellIfEnded } from "workhook/stale"

const GATHER_MS = 250
const AGAIN_MS = 5000

export default class extends Controller {
  static values = { url: String }

  connect() {
    this.sent = () => { if (this.timer) this.changed() } // the answer is about to be shown
    document.addEventListener("turbo:submit-end", this.sent)
    this.open()
  }

  disconnect() {
    document.removeEventListener("turbo:submit-end", this.sent)
    this.source?.close()
    clearTimeout(this.timer)
    clearTimeout(this.again)
  }

  open() {
    this.source = new EventSource(this.urlValue)
    this.source.addEventListener("changed", () => this.changed())
    this.source.addEventListener("error", () => {
      if (this.source.readyState !== EventSource.CLOSED) return
      this.again = setTimeout(() => this.open(), AGAIN_MS)
      tellIfEnded().catch(() => null) // the server cannot be reached: it is tried again
    })
    this.source.addEventListener("open", () => {
      if (this.wasOpen) this.changed() // what happened meanwhile
      this.wasOpen = true
      this.element.dataset.liveState = "open"
    })
  }

  changed() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.refresh(), GATHER_MS)
  }

  refresh() {
    this.timer = undefined
    if (isUnderWay()) return this.changed()
    refresh()
  }
}
