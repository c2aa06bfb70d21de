// Browsers start no workers in pages that were opened from a folder. The search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      inside.document.open()
      inside.document.write("<!doctype html><body></body>")
      inside.document.close()
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      inside.importScripts = (...urls) => Promise.all(urls.map(address => added(inside, address)))
      this.inside = inside
      this.ready = added(inside, url)
    }
    postMessage(data) {
      this.ready.then(() => {
        const event = new this.inside.MessageEvent("message", { data })
        this.inside.dispatchEvent(event)
      })
    }
    terminate() {
      this.inside.frameElement.remove()
    }
  }
  const added = (inside, url) => new Promise((resolve, reject) => {
    const script = inside.document.createElement("script")
    script.src = url
    script.onload = resolve
    script.onerror = reject
    inside.document.body.append(script)
  })
}
