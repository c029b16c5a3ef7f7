// Sends what a user said of an answer. On a page of your app:
//   <script src="https://monitor.example.com/static/feedback.js" data-app="support-bot"></script>
//   groundwatch.feedback({trace_id: "...", good: false, comment: "it made that up"})
// GROUNDWATCH_FEEDBACK_ORIGINS must name the page's origin. It never throws.
(function () {
  "use strict";
  var script = document.currentScript;
  var to = new URL("/api/v1/feedback", script.src).href;
  var app = script.dataset.app;
  window.groundwatch = {
    feedback: function (said) {
      try {
        return fetch(to, {
          method: "POST",
          mode: "cors",
          credentials: "omit",
          keepalive: true,
          headers: {"Content-Type": "application/json"},
          body: JSON.stringify({
            app: said.app || app,
            trace_id: said.trace_id,
            good: said.good,
            comment: said.comment || "",
          }),
        }).then(function (answer) { return answer.ok; }, function () { return false; });
      } catch (error) {
        return Promise.resolve(false);
      }
    },
  };
})();
