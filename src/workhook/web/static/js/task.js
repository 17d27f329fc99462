// Forms that unfold in a task: the first field has the focus, Escape folds them, and so does saving.
import { Controller } from "stimulus"

export default class extends Controller {
  opened(event) {
    if (!event.target.open) return
    const field = event.target.querySelector("input:not([type=hidden]), textarea, select")
    field?.focus()
    if (field?.matches("[data-selected]")) field.select() // what stands in it is a suggestion
  }

  escape(event) {
    const unfolded = event.target.closest("details[open]")
    if (event.key !== "Escape" || !unfolded) return
    event.preventDefault() // the dialog around it stays open
    unfolded.open = false
    unfolded.querySelector("summary").focus()
  }

  // What was saved comes back with the page: a form that still looks changed would be kept as it is.
  sent(event) {
    const sender = event.detail.formSubmission.submitter
    if (!event.detail.success || sender?.matches("[data-turbo-frame]") || event.target.matches(".cell")) return
    event.target.reset()
    if (event.target.matches(".adding")) return // the next item is typed where this one was
    if (event.target.id === "form-checklist") document.addEventListener(renderingOf(this.element), () => this.goOn(), { once: true })
    const unfolded = event.target.closest("details[open]")
    if (unfolded) {
      unfolded.open = false
      unfolded.querySelector("summary").focus()
    } else if (event.target.contains(document.activeElement)) document.activeElement.blur()
  }

  // A new checklist wants its items.
  goOn() {
    [...this.element.querySelectorAll(".adding input[name=item]")].at(-1)?.focus()
  }
}

// A task over its board is in a frame that is loaded by itself.
function renderingOf(element) {
  return element.closest("dialog") ? "turbo:frame-render" : "turbo:render"
}
