// Handles files dropped anywhere on the page. While files are dragged over it, the element has the class `over`.
export function listenForDrops(element, take) {
  const leaveOff = () => element.classList.remove("over")
  const listeners = {
    dragover(event) {
      if (!event.dataTransfer?.types.includes("Files")) return
      event.preventDefault()
      event.dataTransfer.dropEffect = "copy"
      element.classList.add("over")
    },
    dragleave(event) {
      if (!event.relatedTarget) leaveOff()
    },
    drop(event) {
      leaveOff()
      if (!event.dataTransfer?.files.length) return
      event.preventDefault()
      take(event.dataTransfer.files)
    },
  }
  for (const [name, listener] of Object.entries(listeners)) document.addEventListener(name, listener)
  return () => {
    for (const [name, listener] of Object.entries(listeners)) document.removeEventListener(name, listener)
  }
}
