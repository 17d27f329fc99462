// Submits a form only once on a double click. The second click may follow the response, and would then hit whatever is
// at the same position, such as the next row.
const sent = new WeakSet()

document.addEventListener("click", (event) => {
  if (event.detail < 2) return
  const button = event.target.closest("button, input[type=submit]")
  if (button?.type === "submit" && button.form?.method === "post") event.preventDefault()
}, true)

// Turbo disables the button during submission. The browser doesn't for forms that it submits itself.
document.addEventListener("submit", (event) => {
  const form = event.target
  if (event.defaultPrevented || form.dataset.turbo !== "false" || form.method !== "post") return
  if (sent.has(form)) event.preventDefault()
  sent.add(form)
})
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.forms) sent.delete(form)
})
