// Back and forward, before Turbo hears of them: it is loaded after this. Who takes the event `popped` (preventDefault)
// shows the address itself, and Turbo goes on with the page that it has shown.
window.addEventListener("popstate", (event) => {
  const popped = new CustomEvent("popped", { cancelable: true, detail: { state: event.state } })
  if (!document.dispatchEvent(popped)) event.stopImmediatePropagation()
})
