// Handles back and forward before Turbo, which is loaded later. A listener that cancels the event `popped` shows the URL
// itself, and Turbo keeps its current page.
window.addEventListener("popstate", (event) => {
  const popped = new CustomEvent("popped", { cancelable: true, detail: { state: event.state } })
  if (!document.dispatchEvent(popped)) event.stopImmediatePropagation()
})
