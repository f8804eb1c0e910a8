;;; rex-rpc-views.el --- Sessions as this Emacs follows them  -*- lexical-binding: t; -*-

;;; Commentary:

;; A session of a host is a process here as far as Emacs can tell: a small shell
;; script that copies what is written to it into one FIFO, prints what comes out
;; of another, and exits with the code it finds in a file.  Emacs stands at the
;; other ends and is a client of the session.  So filters, sentinels, comint,
;; term and compile work as with any process.
;;
;; It must not know files or buffers.

;;; Code:

(require 'rex-rpc)

(defconst rex-rpc--stand-in
  "d=$1; exec 3<&0; cat <&3 >\"$d/in\" & c=$!; exec 3<&-
cat <\"$d/out\"; e=$(cat \"$d/end\"); kill $c 2>/dev/null; exec sh -c \"$e\""
  "Stands here for a process of a host; $1 is its directory.")

(cl-defstruct (rex-rpc--view (:copier nil))
  "A session as this Emacs follows it."
  host session
  own                          ; whether it ends with us
  stand-in typing output       ; processes: of Emacs, and at its FIFOs
  directory                    ; of the FIFOs
  attachment errors            ; attachments to stdout and stderr
  (next 0) code signal
  role                         ; \"writer\" or \"observer\"
  (queue nil)                  ; bytes for the session, newest first
  writing                      ; whether a write is under way
  over                         ; nil, `ended' or `lost'
  state                        ; of the session
  lasts                        ; whether the session outlives its link
  cut                          ; whether that is lost just now
  in-line                      ; whether what was shown ends within a line
  prompt-at                    ; offset behind which a prompt of ours is due
  info before stderr-to ready)

(defvar rex-rpc--views nil "All views that are not over.")

;;;; What comes

(defvar rex-rpc--work nil "What is to be done soon, the newest first.")
(defvar rex-rpc--working nil "Whether somebody does it, or will.")

(defun rex-rpc--soon (function &rest args)
  "Call FUNCTION with ARGS later, outside of filters.
To write to a process may wait for it, and then that filter would
be entered again in the middle of a message.  All is done in its
order, one after the other."
  (push (cons function args) rex-rpc--work)
  (unless rex-rpc--working
    (setq rex-rpc--working t)
    (run-at-time 0 nil #'rex-rpc--do-work)))

(defun rex-rpc--do-work ()
  "Do what is to be done, also what comes meanwhile."
  (unwind-protect
      (while rex-rpc--work
        (let ((all (nreverse rex-rpc--work)))
          (setq rex-rpc--work nil)
          (dolist (each all)
            (with-demoted-errors "rex-rpc: %S"
              (apply (car each) (cdr each))))))
    (setq rex-rpc--working nil)))

(defun rex-rpc--show (view bytes)
  "Give BYTES to the reader of VIEW."
  (let ((output (rex-rpc--view-output view)))
    (when (and (process-live-p output) (not (string-empty-p bytes)))
      (setf (rex-rpc--view-in-line view) (not (string-suffix-p "\n" bytes)))
      (ignore-errors (process-send-string output bytes)))))

(defun rex-rpc--say (view text)
  "Give TEXT of ours to the reader of VIEW."
  (rex-rpc--show view (encode-coding-string
                       (format "\r\n[rex: %s]\r\n" (rex-rpc--printable text))
                       'utf-8)))

(defun rex-rpc--prompt-if-due (view)
  "Give the reader of VIEW a prompt, if one is due and all before it shown.
An agent's shell has none of its own."
  (let ((due (rex-rpc--view-prompt-at view))
        (info (rex-rpc--view-info view)))
    (when (and due (>= (rex-rpc--view-next view) due)
               (not (rex-rpc--view-own view)) (plist-get info :shell)
               (equal (rex-rpc--view-role view) "writer")
               (equal (rex-rpc--view-state view) "ready"))
      (setf (rex-rpc--view-prompt-at view) nil)
      (rex-rpc--show view (encode-coding-string
                           (format "%s%s $ "
                                   (if (rex-rpc--view-in-line view) "\r\n" "")
                                   (rex-rpc--printable (plist-get info :cwd)))
                           'utf-8)))))

(defun rex-rpc--finish (view)
  "End what stands here for the session of VIEW."
  (setq rex-rpc--views (delq view rex-rpc--views))
  (let ((directory (rex-rpc--view-directory view))
        (signal (rex-rpc--view-signal view))
        (code (rex-rpc--view-code view)))
    (when (file-directory-p directory)
      (write-region (cond (signal (format "kill -%s $$" signal))
                          (t (format "exit %d" (or code 255))))
                    nil (expand-file-name "end" directory) nil 'quiet))
    (when (process-live-p (rex-rpc--view-output view))
      (process-send-eof (rex-rpc--view-output view)))))

(defun rex-rpc--take-output (view params)
  "Show the session/output PARAMS of VIEW and say that it was read."
  (let ((gap (plist-get params :gap)))
    (when gap
      (rex-rpc--say view (format "%d bytes were lost here"
                                 (- (plist-get gap :to) (plist-get gap :from))))))
  (let ((bytes (rex-rpc--bytes params))
        (errors (rex-rpc--view-stderr-to view)))
    (cond ((not (equal (plist-get params :stream) "stderr"))
           (rex-rpc--show view bytes))
          ((buffer-live-p errors)
           (with-current-buffer errors
             (goto-char (point-max))
             (insert (decode-coding-string bytes 'utf-8))))))
  (rex-rpc-notify 'session/ack
                  (list :attachment (plist-get params :attachment)
                        :offset (plist-get params :next)
                        :host (rex-rpc--view-host view)))
  (unless (equal (plist-get params :stream) "stderr")
    (setf (rex-rpc--view-next view) (plist-get params :next))
    (rex-rpc--prompt-if-due view)
    (when (eq (plist-get params :eof) t)
      (setf (rex-rpc--view-over view) 'ended)
      (if (or (rex-rpc--view-code view) (rex-rpc--view-signal view))
          (rex-rpc--finish view)
        (rex-rpc--ask-how-it-ended view)))))

(defun rex-rpc--ask-how-it-ended (view)
  "Ask for the exit code of VIEW's session, and finish."
  (rex-rpc-request-async
   (rex-rpc--view-host view) "session/wait"
   (list :session (rex-rpc--view-session view) :any [(:exit t)] :waitMs 0)
   (lambda (_error result)
     (let ((ended (plist-get result :result)))
       (setf (rex-rpc--view-code view) (plist-get ended :exitCode)
             (rex-rpc--view-signal view) (plist-get ended :signal))
       (rex-rpc--soon #'rex-rpc--finish view)))))

(defvar rex-rpc-view-functions nil
  "Functions called with a view and a session/event of it.")

(defun rex-rpc--session-notified (method params)
  "Take METHOD with PARAMS if it is of a session that is followed."
  (when (memq method '(session/output session/event attachment/ended))
    (let ((view (cl-find-if
                 (lambda (view)
                   (and (equal (rex-rpc--view-host view)
                               (or (plist-get params :host) ""))
                        (member (plist-get params :attachment)
                                (list (rex-rpc--view-attachment view)
                                      (rex-rpc--view-errors view)))))
                 rex-rpc--views)))
      (when (and view (rex-rpc--view-cut view)
                 (not (eq method 'attachment/ended)))
        (setf (rex-rpc--view-cut view) nil)
        (rex-rpc--soon #'rex-rpc--say view "it goes on"))
      (cond ((null view))
            ((eq method 'session/output)
             (rex-rpc--soon #'rex-rpc--take-output view params))
            ((eq method 'attachment/ended)
             (rex-rpc--cut-off view (plist-get params :reason)))
            (t
             (setf (rex-rpc--view-state view) (plist-get params :state))
             (pcase (plist-get params :event)
               ("shellExited"
                (setf (rex-rpc--view-code view) (plist-get params :exitCode)
                      (rex-rpc--view-signal view) (plist-get params :signal)))
               ("cwd"
                (setf (rex-rpc--view-info view)
                      (plist-put (rex-rpc--view-info view)
                                 :cwd (plist-get params :cwd))))
               ("stateChanged"
                (setf (rex-rpc--view-prompt-at view)
                      (and (equal (plist-get params :state) "ready")
                           (plist-get params :offset)))
                (rex-rpc--soon #'rex-rpc--prompt-if-due view)))
             (rex-rpc--soon #'run-hook-with-args 'rex-rpc-view-functions
                            view params))))))
(add-hook 'rex-rpc-notification-functions #'rex-rpc--session-notified)

(defun rex-rpc--cut-off (view why)
  "Say in VIEW WHY nothing comes any more, and end what stands here for it."
  (unless (rex-rpc--view-over view)
    (setf (rex-rpc--view-over view) 'lost)
    (rex-rpc--soon (lambda ()
                     (rex-rpc--say view why)
                     (rex-rpc--finish view)))))

(defun rex-rpc--views-lost (host why again)
  "Say in what was followed on HOST that it is lost, and WHY.
What lasts goes on by itself if HOST is dialled AGAIN."
  (dolist (view rex-rpc--views)
    (when (and (rex-rpc--behind-p host (rex-rpc--view-host view))
               (null (rex-rpc--view-over view)))
      (cond ((not (and again (rex-rpc--view-lasts view)
                       (rex-rpc--view-attachment view)))
             (rex-rpc--cut-off view why))
            ((not (rex-rpc--view-cut view))
             (setf (rex-rpc--view-cut view) t)
             (rex-rpc--soon
              #'rex-rpc--say view
              (concat why "; it goes on by itself once that is there again")))))))
(add-hook 'rex-rpc-lost-functions #'rex-rpc--views-lost)

;;;; What is typed

(defun rex-rpc--flush (view)
  "Write what was typed for VIEW: one request at a time, to keep the order."
  (when (and (rex-rpc--view-ready view) (not (rex-rpc--view-writing view))
             (rex-rpc--view-queue view) (null (rex-rpc--view-over view)))
    (let* ((all (reverse (rex-rpc--view-queue view)))
           (bytes (apply #'concat (remq 'eof all))))
      (setf (rex-rpc--view-queue view) nil
            (rex-rpc--view-writing view) t)
      (rex-rpc-request-async
       (rex-rpc--view-host view) "session/write"
       (append (list :session (rex-rpc--view-session view))
               (unless (string-empty-p bytes) (rex-rpc--data bytes))
               (when (memq 'eof all) '(:eof t)))
       (lambda (error _result)
         (setf (rex-rpc--view-writing view) nil)
         (when (and error (null (rex-rpc--view-over view)))
           (rex-rpc--soon #'rex-rpc--say view (plist-get error :message)))
         (rex-rpc--soon #'rex-rpc--flush view))))))

(defun rex-rpc--typed (view bytes)
  "Send BYTES, or the symbol `eof', to the session of VIEW."
  (cond ((equal (rex-rpc--view-role view) "observer")
         (unless (eq bytes 'eof)
           (rex-rpc--say view "only watching: M-x rex-take to type")))
        ((and (not (rex-rpc--view-own view)) (stringp bytes)
              (equal (rex-rpc--view-state view) "ready")
              (plist-get (rex-rpc--view-info view) :shell))
         (rex-rpc--soon #'rex-rpc--run-line view bytes))
        (t
         (push bytes (rex-rpc--view-queue view))
         (rex-rpc--flush view))))

(defun rex-rpc--run-line (view first)
  "Ask for a line that begins with FIRST and run it in the session of VIEW.
An agent's shell has no prompt to type at: a line is run as the
agent's commands are."
  (run-at-time
   0 nil                                ; whoever is asked takes a while
   (lambda ()
     (when-let ((line (with-local-quit
                        (read-string
                         (format "%s $ " (or (plist-get (rex-rpc--view-info view)
                                                        :cwd) ""))
                         (replace-regexp-in-string "[[:cntrl:]]" "" first)))))
       (unless (string-blank-p line)
         (rex-rpc--show view (encode-coding-string (concat line "\r\n") 'utf-8))
         (rex-rpc-request-async
          (rex-rpc--view-host view) "session/run"
          (list :session (rex-rpc--view-session view) :command line :waitMs 0)
          (lambda (error _)
            (when error
              (rex-rpc--soon #'rex-rpc--say view
                             (plist-get error :message))))))))))

(defun rex-rpc--typing-ended (view)
  "Handle that the input of VIEW has ended, or its stand-in."
  (if (and (process-live-p (rex-rpc--view-stand-in view))
           (null (rex-rpc--view-over view)))
      (rex-rpc--typed view 'eof)
    (rex-rpc--abandoned view)))

(defun rex-rpc--abandoned (view)
  "Nothing stands here any more for the session of VIEW."
  (setq rex-rpc--views (delq view rex-rpc--views))
  (delete-directory (rex-rpc--view-directory view) t)
  (dolist (process (list (rex-rpc--view-typing view)
                         (rex-rpc--view-output view)))
    (when (process-live-p process)
      (delete-process process)))
  (when (and (rex-rpc--view-session view) rex-rpc--server
             (not (eq (rex-rpc--view-over view) 'lost)))
    (ignore-errors
      (if (rex-rpc--view-own view)
          (rex-rpc-request-async (rex-rpc--view-host view) "session/close"
                                 (list :session (rex-rpc--view-session view))
                                 #'ignore)
        (rex-rpc-request-async (rex-rpc--view-host view) "session/detach"
                               (list :attachment (rex-rpc--view-attachment view))
                               #'ignore)))))

(defun rex-rpc--interrupt (&optional process _current-group)
  "Interrupt what PROCESS stands for; nil if it is no process of ours."
  (when-let* ((process (get-process (or process (current-buffer))))
              (view (process-get process 'rex-rpc-view)))
    (unless (rex-rpc--view-over view)
      (rex-rpc-request-async (rex-rpc--view-host view) "session/signal"
                             (list :session (rex-rpc--view-session view)
                                   :signal "INT")
                             #'ignore))
    t))
(add-hook 'interrupt-process-functions #'rex-rpc--interrupt)

;;;; Beginning

(defun rex-rpc--helper (name command &rest options)
  "Make a process NAME of ours for COMMAND with OPTIONS."
  (apply #'make-process :name (concat " rex-rpc " name) :command command
         :connection-type 'pipe :noquery t :coding 'no-conversion options))

(defun rex-rpc--new-view (host &rest options)
  "A view of a session on HOST, with a process that stands for it.
OPTIONS are those of `make-process'."
  (let* ((default-directory temporary-file-directory)
         (directory (make-temp-file "rex-rpc" t))
         (view (make-rex-rpc--view :host host :directory directory
                                   :role "writer")))
    (call-process "mkfifo" nil nil nil (expand-file-name "in" directory)
                  (expand-file-name "out" directory))
    (setf (rex-rpc--view-stand-in view)
          (apply #'make-process
                 (append
                  (list :command
                        (list "sh" "-c" rex-rpc--stand-in "sh" directory)
                        :connection-type 'pipe)
                  options)))
    (process-put (rex-rpc--view-stand-in view) 'rex-rpc-view view)
    (setf (rex-rpc--view-output view)
          (rex-rpc--helper "output"
                           (list "sh" "-c" "exec cat >\"$1\"" "sh"
                                 (expand-file-name "out" directory))
                           :sentinel #'ignore :buffer nil)
          (rex-rpc--view-typing view)
          (rex-rpc--helper "typing"
                           (list "cat" (expand-file-name "in" directory))
                           :buffer nil
                           :filter (lambda (_ bytes) (rex-rpc--typed view bytes))
                           :sentinel (lambda (&rest _)
                                       (rex-rpc--typing-ended view))))
    (push view rex-rpc--views)
    view))

(defun rex-rpc--failed (view error)
  "Say ERROR where VIEW is read, and end that."
  (setf (rex-rpc--view-over view) 'lost)
  (rex-rpc--say view (plist-get error :message))
  (rex-rpc--finish view))

(defun rex-rpc--attach (view params done)
  "Attach VIEW as PARAMS say; call DONE, outside of filters, when it is."
  (rex-rpc-request-async
   (rex-rpc--view-host view) "session/attach"
   (append (list :session (rex-rpc--view-session view)) params)
   (lambda (error result)
     (if error
         (rex-rpc--soon #'rex-rpc--failed view error)
       (if (equal (plist-get params :stream) "stderr")
           (setf (rex-rpc--view-errors view) (plist-get result :attachment))
         (let ((info (plist-get result :info)))
           (setf (rex-rpc--view-attachment view) (plist-get result :attachment)
                 (rex-rpc--view-info view) info
                 (rex-rpc--view-state view) (plist-get info :state))))
       (when done
         (rex-rpc--soon done))))))

(defun rex-rpc--create (view params attach)
  "Begin a session as PARAMS say, follow it in VIEW, attached by ATTACH."
  (setf (rex-rpc--view-own view) t)
  (rex-rpc-request-async
   (rex-rpc--view-host view) "session/create" params
   (lambda (error result)
     (if error
         (rex-rpc--soon #'rex-rpc--failed view error)
       (setf (rex-rpc--view-session view) (plist-get result :session)
             (rex-rpc--view-ready view) t)
       (rex-rpc--soon
        (lambda ()
          (if (memq view rex-rpc--views)
              (progn
                (rex-rpc--attach view (append attach '(:offset 0)) nil)
                (when (rex-rpc--view-stderr-to view)
                  (rex-rpc--attach view '(:stream "stderr" :offset 0) nil))
                (rex-rpc--flush view))
            (rex-rpc--abandoned view))))))))

(defun rex-rpc--leave ()
  "End the sessions that would outlive this Emacs, which ends."
  (let ((open 0)
        (end (time-add nil 2)))
    (dolist (view rex-rpc--views)
      (when (and rex-rpc--server (rex-rpc--view-own view)
                 (rex-rpc--view-lasts view) (rex-rpc--view-session view)
                 (not (rex-rpc--view-over view)) (not (rex-rpc--view-cut view)))
        (cl-incf open)
        (rex-rpc--send "session/close"
                       (list :host (rex-rpc--view-host view)
                             :session (rex-rpc--view-session view))
                       (lambda (&rest _) (cl-decf open)))))
    (while (and (> open 0) (time-less-p nil end))
      (accept-process-output nil 0.05))))
(add-hook 'kill-emacs-hook #'rex-rpc--leave)

(provide 'rex-rpc-views)
;;; rex-rpc-views.el ends here
