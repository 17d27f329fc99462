// Collapsible forms in a task: opening focuses the first field; Escape and saving close them.
import { Controller } from "stimulus"

export default class extends Controller {
  opened(event) {
    if (!event.target.open) return
    const field = event.target.querySelector("input:not([type=hidden]), textarea, select")
    field?.focus()
    if (field?.matches("[data-selected]")) field.select() // its value is a suggestion
  }

  escape(event) {
    const unfolded = event.target.closest("details[open]")
    if (event.key !== "Escape" || !unfolded) return
    event.preventDefault() // keeps the surrounding dialog open
    unfolded.open = false
    unfolded.querySelector("summary").focus()
  }

  // The page brings the saved values, but a form that still looks edited would be preserved.
  sent(event) {
    const sender = event.detail.formSubmission.submitter
    if (!event.detail.success || sender?.matches("[data-turbo-frame]") || event.target.matches(".cell")) return
    event.target.reset()
    if (event.target.matches(".adding")) return // ready for the next item
    if (event.target.id === "form-checklist") document.addEventListener(renderingOf(this.element), () => this.goOn(), { once: true })
    const unfolded = event.target.closest("details[open]")
    if (unfolded) {
      unfolded.open = false
      unfolded.querySelector("summary").focus()
    } else if (event.target.contains(document.activeElement)) document.activeElement.blur()
  }

  // After adding a checklist, focus its next item.
  goOn() {
    [...this.element.querySelectorAll(".adding input[name=item]")].at(-1)?.focus()
  }
}

// A task over its board is in a separately loaded frame.
function renderingOf(element) {
  return element.closest("dialog") ? "turbo:frame-render" : "turbo:render"
}
