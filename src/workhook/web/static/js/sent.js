// Empties a form that was sent and taken, and closes what it stood in: else the refresh would keep what was typed.
import { Controller } from "stimulus"
import { renewKey } from "workhook/formkey"

export default class extends Controller {
  clear(event) {
    if (!event.detail.success) return
    this.element.reset()
    renewKey(this.element) // what is typed next is something else, though it may be the same text
    const around = this.element.closest("details")
    if (around) around.open = false
  }

  // Escape goes back to the cards, with what is typed still there.
  leave(event) {
    if (event.defaultPrevented) return
    event.preventDefault()
    const before = this.element.previousElementSibling?.querySelectorAll("a[data-over]")
    event.target.blur()
    before?.[before.length - 1]?.focus()
  }

  // What was added stands before the form, and comes with the page that is on its way.
  showAdded(event) {
    if (!event.detail.success) return
    const before = this.element.previousElementSibling
    const show = () => {
      const added = this.element.previousElementSibling
      if (added === before) return
      document.removeEventListener("turbo:render", show)
      added.scrollIntoView({ block: "nearest", inline: "start" })
    }
    document.addEventListener("turbo:render", show)
  }
}
