// A refresh of the page never takes away what somebody types, drags or has open.

// The form whose answer is being shown: it came back as it was typed, with what is wrong.
let refused = null

function isInUse(element) {
  const active = document.activeElement
  if (refused?.contains(element)) return false
  if (element.matches("[data-busy], [data-busy] *, [data-own]")) return true // `data-own`: its state is this browser's
  if (element.matches("form") && isChanged(element)) return true
  if (element.matches("input[type=checkbox][form]") && element.checked) return true
  return active && active !== document.body && element === active && active.matches("input, textarea, select, [contenteditable]")
}

// Where the page says of no option that it is selected, the browser has selected the first.
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

// Whether there is what a refresh would end: a drag, a form that is being sent, a page that is being opened.
export function isUnderWay() {
  return document.querySelector("[data-busy], [aria-busy=true]") !== null
}

// Leads to the first field that is wrong, or else to what is said above the form.
function showFaults() {
  const field = document.querySelector("[aria-invalid=true]")
  for (let around = field?.closest("details"); around; around = around.parentElement.closest("details")) around.open = true
  if (field) return field.focus()
  document.querySelector(":is(main, dialog[open]) .card.error[role=alert]")?.scrollIntoView({ block: "nearest" })
}

// A form that was taken keeps what is in it, but nothing is wrong with it any more.
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
    // Of a board's many cards a change is about few: the browser sees faster than Turbo which of them are the same.
    if (event.target.matches(".board-card") && event.target.isEqualNode(event.detail.newElement)) return event.preventDefault()
    // A message stays until its time is over: the page that was asked for meanwhile does not have it any more.
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
