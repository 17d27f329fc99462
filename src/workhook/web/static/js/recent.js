// Shows and clears this browser's recent searches, which are kept in its local storage.
import { Controller } from "stimulus"

const KEY = "workhook-searches"
const KEPT = 8

export default class extends Controller {
  static targets = ["list", "item"]
  static values = { q: String }

  connect() {
    if (this.qValue) this.keep(this.qValue)
    this.show()
  }

  read() {
    try {
      const found = JSON.parse(localStorage.getItem(KEY) ?? "[]")
      return Array.isArray(found) ? found.filter((each) => typeof each === "string") : []
    } catch {
      return [] // invalid stored data
    }
  }

  keep(text) {
    const others = this.read().filter((each) => each !== text)
    localStorage.setItem(KEY, JSON.stringify([text, ...others].slice(0, KEPT)))
  }

  show() {
    const others = this.read().filter((each) => each !== this.qValue)
    this.element.hidden = others.length === 0
    this.listTarget.replaceChildren(...others.map((text) => {
      const item = this.itemTarget.content.cloneNode(true)
      const link = item.querySelector("a")
      link.textContent = text
      link.href = `/search?${new URLSearchParams({ q: text })}`
      return item
    }))
  }

  clear() {
    localStorage.removeItem(KEY)
    this.element.hidden = true
    document.getElementById("search-words")?.focus()
  }
}
