// Suggests people of the project while the user types "@". The list is in a template of the page; only the text is
// submitted.
import { Controller } from "stimulus"

const TYPED = /(?<![\w@./-])@([\p{L}\p{N}-]*)$/u
const STEPS = { ArrowDown: 1, ArrowUp: -1 }
const AWAY = ["ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"]

export default class extends Controller {
  static targets = ["people"]

  connect() {
    this.element.listens = true
  }

  disconnect() {
    this.close()
  }

  suggest({ target }) {
    if (!target.matches("textarea")) return
    const typed = TYPED.exec(target.value.slice(0, target.selectionEnd))
    if (typed?.index !== this.refusedAt) this.refusedAt = undefined
    if (!typed || this.refusedAt !== undefined) return this.close()
    this.at = typed.index
    this.open(target)
    for (const each of this.options) each.hidden = !isNamed(each, typed[1].toLowerCase())
    if (this.shown.length) this.choose(this.shown[0])
    else this.close()
  }

  open(field) {
    if (this.field === field) return
    this.close()
    this.field = field
    this.list = this.peopleTarget.content.firstElementChild.cloneNode(true)
    field.after(this.list)
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-controls": this.list.id, "aria-expanded": "true",
    })) field.setAttribute(name, value)
  }

  close() {
    if (!this.field) return
    for (const name of ["role", "aria-autocomplete", "aria-haspopup", "aria-controls", "aria-expanded", "aria-activedescendant"]) this.field.removeAttribute(name)
    this.list.remove()
    this.field = this.list = null
  }

  // Runs first, so Enter inserts no line break and Escape closes neither the form nor the dialog.
  press(event) {
    if (!this.field || event.isComposing || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return
    if (AWAY.includes(event.key)) return this.close()
    if (STEPS[event.key]) this.move(STEPS[event.key])
    else if (event.key === "Enter" || event.key === "Tab") this.insert(this.chosen)
    else if (event.key === "Escape") this.refuse()
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  // Stops suggestions for this "@".
  refuse() {
    this.refusedAt = this.at
    this.close()
  }

  move(step) {
    const { shown } = this
    this.choose(shown[(shown.indexOf(this.chosen) + step + shown.length) % shown.length])
  }

  choose(option) {
    for (const each of this.options) each.setAttribute("aria-selected", each === option)
    this.field.setAttribute("aria-activedescendant", option.id)
    option.scrollIntoView({ block: "nearest" })
  }

  insert(option) {
    const { field } = this
    field.setRangeText(`@${option.dataset.login} `, this.at, field.selectionEnd, "end")
    field.dispatchEvent(new Event("input", { bubbles: true }))
  }

  // The field keeps the focus while the list is used.
  hold(event) {
    event.preventDefault()
  }

  pick(event) {
    const option = event.target.closest("[role=option]")
    if (option) this.insert(option)
  }

  // A click elsewhere, including one that moves the caret.
  leave(event) {
    if (!this.list?.contains(event.target)) this.close()
  }

  get options() {
    return [...this.list.children]
  }

  get shown() {
    return this.options.filter((each) => !each.hidden)
  }

  get chosen() {
    return this.list.querySelector("[aria-selected=true]")
  }
}

// Whether the login or a word of the name begins with the typed text.
function isNamed(option, typed) {
  const words = [option.dataset.login, ...option.firstElementChild.textContent.split(/\s+/)]
  return words.some((each) => each.toLowerCase().startsWith(typed))
}
