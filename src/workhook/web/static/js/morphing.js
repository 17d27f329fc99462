// Page refreshes preserve what the user is typing, dragging or has open.

// The form whose response is being rendered, with the typed values and its errors.
let refused = null

function isInUse(element) {
  const active = document.activeElement
  if (refused?.contains(element)) return false
  if (element.matches("[data-busy], [data-busy] *, [data-own]")) return true // `data-own`: state kept by this browser
  if (element.matches("form") && isChanged(element)) return true
  if (element.matches("input[type=checkbox][form]") && element.checked) return true
  return active && active !== document.body && element === active && active.matches("input, textarea, select, [contenteditable]")
}

// Without a `selected` option, the browser selects the first.
function isChosenAnew(select) {
  const options = [...select.options]
  if (select.multiple) return options.some((each) => each.selected !== each.defaultSelected)
  const usual = options.findLast((each) => each.defaultSelected) ?? options.find((each) => !each.disabled)
  return select.selectedOptions[0] !== usual
}

export function isChanged(form) {
  return [...form.elements].some((field) => {
    if (field.type === "hidden" || field.type === "submit") return false
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked
    if (field.tagName === "SELECT") return isChosenAnew(field)
    return "defaultValue" in field && field.value !== field.defaultValue
  })
}

// Whether a refresh would interrupt something: a drag, a form submission, or navigation.
export function isUnderWay() {
  return document.querySelector("[data-busy], [aria-busy=true]") !== null
}

// Focuses the first invalid field, or the message above the form.
function showFaults() {
  const field = document.querySelector("[aria-invalid=true]")
  for (let around = field?.closest("details"); around; around = around.parentElement.closest("details")) around.open = true
  if (field) return field.focus()
  document.querySelector(":is(main, dialog[open]) .card.error[role=alert]")?.scrollIntoView({ block: "nearest" })
}

// A saved form keeps its values but not its errors.
function unmark(form) {
  for (const fault of form.querySelectorAll(".fault, .card.error[role=alert]")) fault.remove()
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid")
}

function followRefusals() {
  document.addEventListener("turbo:before-fetch-response", (event) => {
    const { statusCode, contentType } = event.detail.fetchResponse
    const form = event.target
    if (!(form instanceof HTMLFormElement)) return
    if (statusCode < 400) unmark(form)
    else if (contentType?.startsWith("text/html")) refused = form
  })
  for (const rendered of ["turbo:render", "turbo:frame-render"]) document.addEventListener(rendered, () => {
    if (!refused) return
    refused = null
    showFaults()
  })
}

export function protectWhatIsInUse() {
  followRefusals()
  document.addEventListener("turbo:before-morph-element", (event) => {
    if (!(event.target instanceof Element)) return
    // Most cards of a board don't change, and the browser compares them faster than Turbo does.
    if (event.target.matches(".board-card") && event.target.isEqualNode(event.detail.newElement)) return event.preventDefault()
    // Messages stay until they time out, although the refreshed page no longer contains them.
    const isMessageThatWouldGo = !event.detail.newElement && event.target.closest(".toasts")
    if (isMessageThatWouldGo || isInUse(event.target)) event.preventDefault()
  })
  document.addEventListener("turbo:before-morph-attribute", (event) => {
    const name = event.detail.attributeName
    if (event.target.matches("details, dialog") && name === "open") event.preventDefault()
    if (name === "data-live-state") event.preventDefault()
    if (name === "class" && event.target.matches("[data-keep-class]")) event.preventDefault()
    if (name === "aria-expanded" && event.target.closest("[data-keep-class]")) event.preventDefault()
    if (name === "tabindex" && event.target.matches("[data-roving]")) event.preventDefault()
  })
}
