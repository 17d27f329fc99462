// Messages over a page or its open dialog. Each is in a template of the page, with the template's ID as `data-told`.
function place() {
  return document.querySelector("dialog[open] .toasts") ?? document.querySelector(".toasts")
}

// Shows the message of a template once.
export function tell(id) {
  const template = document.getElementById(id)
  if (!template || !place() || place().querySelector(`[data-told=${id}]`)) return
  place().append(template.content.firstElementChild.cloneNode(true))
}

export function forget(messages) {
  for (const each of document.querySelectorAll(messages)) each.remove()
}
