// A double click sends a form once. The answer can come before the second click does: that one would hit whatever is in
// the same place by then, such as the next line of a list.
const sent = new WeakSet()

document.addEventListener("click", (event) => {
  if (event.detail < 2) return
  const button = event.target.closest("button, input[type=submit]")
  if (button?.type === "submit" && button.form?.method === "post") event.preventDefault()
}, true)

// Turbo disables the button of a form that is on its way. The browser does not, for those that it sends itself.
document.addEventListener("submit", (event) => {
  const form = event.target
  if (event.defaultPrevented || form.dataset.turbo !== "false" || form.method !== "post") return
  if (sent.has(form)) event.preventDefault()
  sent.add(form)
})
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.forms) sent.delete(form)
})
