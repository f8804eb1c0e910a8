;;; rex-rpc-session.el --- Terminals on sessions  -*- lexical-binding: t; -*-

;;; Commentary:

;; `term-mode' buffers on shells of one's own and on sessions that somebody
;; else drives, and `compilation-mode' buffers on commands.
;; It must not know how a host is reached.

;;; Code:

(require 'rex-rpc-process)
(require 'term)
(require 'compile)

(defvar term-height)                    ; before they have a value in `term-mode'
(defvar term-width)

(defcustom rex-rpc-shell nil
  "The arguments of new shells, or nil for the user's own shell there."
  :type '(choice (const :tag "The user's own" nil) (repeat string))
  :group 'rex-rpc)

(defconst rex-rpc--replay-bytes (* 1024 1024)
  "A longer journal is not replayed: its screen is shown as it is now.")

(defvar-local rex-rpc--view nil "The view of this buffer.")

;;;; Terminals

(defun rex-rpc--resize (view size)
  "Tell the session of VIEW the SIZE, a cons of columns and rows, of its window."
  (when (and size (rex-rpc--view-ready view) (null (rex-rpc--view-over view))
             (equal (rex-rpc--view-role view) "writer"))
    (rex-rpc-request-async
     (rex-rpc--view-host view) "session/resize"
     (list :session (rex-rpc--view-session view)
           :cols (car size) :rows (cdr size))
     #'ignore))
  size)

(defun rex-rpc--terminal (buffer host)
  "Make BUFFER a terminal of a new view on HOST; return the view."
  (rex-rpc--reach host)
  (pop-to-buffer-same-window buffer)
  (unless (derived-mode-p 'term-mode)
    (term-mode)
    (add-function :filter-return (local 'window-adjust-process-window-size-function)
                  (lambda (size)
                    (if rex-rpc--view (rex-rpc--resize rex-rpc--view size) size))))
  (let* ((view (rex-rpc--new-view host :name "rex" :buffer buffer
                                  :coding 'no-conversion :noquery t
                                  :filter #'term-emulate-terminal
                                  :sentinel #'term-sentinel))
         (process (rex-rpc--view-stand-in view)))
    (setq rex-rpc--view view
          default-directory (rex-rpc-file-name host "/"))
    (goto-char (point-max))
    (set-marker (process-mark process) (point))
    (term-char-mode)
    view))

(defun rex-rpc--user-shell (host)
  "The arguments of a shell on HOST."
  (or rex-rpc-shell
      (let ((shell (plist-get (rex-rpc--machine host) :shell)))
        (list (if (string-prefix-p "/" (or shell "")) shell "/bin/sh")
              (if (string-empty-p host) "-i" "-l")))))

(defconst rex-rpc--keep-ms (* 24 3600 1000)
  "How long a shell on a host waits for its link, while no command runs in it.")

(defun rex-rpc--begin-shell (view)
  "Begin a shell on the host of VIEW and show it there."
  (setf (rex-rpc--view-lasts view)
        (not (string-empty-p (rex-rpc--view-host view))))
  (rex-rpc--create
   view
   (append
    (list :argv (vconcat (rex-rpc--user-shell (rex-rpc--view-host view)))
          :profile "human" :rows term-height :cols term-width
          :env '(:TERM "eterm-color"))
    (and (rex-rpc--view-lasts view)
         (list :lifetime "daemon" :ttlMs rex-rpc--keep-ms)))
   '(:role "writer" :newline "terminal")))

;;;###autoload
(defun rex-shell (host)
  "Open a shell on HOST in a terminal of its own."
  (interactive (list (rex-rpc-read-host "Shell on host (default: here): ")))
  (let ((view (rex-rpc--terminal
               (generate-new-buffer
                (format "*rex %s*" (if (string-empty-p host) "here" host)))
               host)))
    (rex-rpc--begin-shell view)
    (current-buffer)))

(defun rex-reconnect ()
  "Go on with the session of this buffer, whose host was lost, where it stopped.
One that has ended with its link makes way for a new shell."
  (interactive)
  (let ((old rex-rpc--view))
    (unless (and old (eq (rex-rpc--view-over old) 'lost))
      (user-error "Nothing to reconnect in this buffer"))
    (let* ((host (rex-rpc--view-host old))
           (session (rex-rpc--view-session old))
           (view (rex-rpc--terminal (current-buffer) host))
           (lives (and session
                       (condition-case nil
                           (rex-rpc-request host "session/info"
                                            (list :session session))
                         (rex-rpc-error nil)))))
      (setf (rex-rpc--view-own view) (rex-rpc--view-own old)
            (rex-rpc--view-lasts view) (rex-rpc--view-lasts old)
            (rex-rpc--view-role view) (rex-rpc--view-role old))
      (if lives
          (progn
            (setf (rex-rpc--view-session view) session
                  (rex-rpc--view-ready view) t)
            (rex-rpc--attach view (list :offset (rex-rpc--view-next old)
                                        :role (rex-rpc--view-role old)
                                        :newline "terminal")
                             nil))
        (rex-rpc--say view "the session has ended with its link; this is a new one")
        (rex-rpc--begin-shell view)))))

;;;; Sessions of others

(defun rex-rpc--runtime-directory ()
  "Where instances have their sockets."
  (let ((given (getenv "XDG_RUNTIME_DIR")))
    (if (and given (file-directory-p given)
             (eql (file-attribute-user-id (file-attributes given)) (user-uid)))
        (expand-file-name "rex-rpc" given)
      (format "/tmp/rex-rpc-%d" (user-uid)))))

(defun rex-rpc-sessions ()
  "Sessions of all other instances here, as an alist of names and properties."
  (let ((default-directory temporary-file-directory)
        (own (plist-get (rex-rpc--machine "") :instance)))
    (with-temp-buffer
      (unless (memq (call-process (car rex-rpc-command) nil '(t nil) nil
                                  "sessions" "--json")
                    '(0 1))
        (error "%s gave no list of sessions" (car rex-rpc-command)))
      (goto-char (point-min))
      (cl-loop for info across (json-parse-buffer :object-type 'plist
                                                  :null-object nil
                                                  :false-object :json-false)
               for instance = (plist-get info :instance)
               unless (equal instance own)
               collect (cons (concat instance "/" (plist-get info :session))
                             info)))))

(defun rex-rpc--described (info)
  "What the session INFO does, for a person."
  (concat "  " (plist-get info :state)
          (when-let ((waiting (plist-get info :waiting)))
            (concat ": " (rex-rpc--printable (plist-get waiting :text))))
          (when-let ((command (plist-get info :foreground)))
            (concat " · " (rex-rpc--printable (plist-get command :command))))
          (when-let ((writer (plist-get info :writer)))
            (concat " · typed into by " (rex-rpc--printable writer)))))

(defun rex-rpc--read-session ()
  "Ask for a session of another program."
  (let ((all (rex-rpc-sessions)))
    (unless all
      (user-error "There are no sessions of others"))
    (completing-read
     "Session: "
     (lambda (text predicate action)
       (if (eq action 'metadata)
           `(metadata (annotation-function
                       . ,(lambda (name)
                            (rex-rpc--described (cdr (assoc name all))))))
         (complete-with-action action (mapcar #'car all) text predicate))))))

(defun rex-rpc--found-session (name)
  "The entry of `rex-rpc-sessions' that NAME, [INSTANCE/]SESSION, means."
  (let ((found (cl-remove-if-not
                (lambda (entry)
                  (or (equal name (plist-get (cdr entry) :session))
                      (and (string-match "\\`\\([^/]*\\)/\\(.*\\)\\'" name)
                           (equal (match-string 2 name)
                                  (plist-get (cdr entry) :session))
                           (string-prefix-p (match-string 1 name)
                                            (car entry)))))
                (rex-rpc-sessions))))
    (pcase (length found)
      (0 (user-error "No session %s" name))
      (1 (car found))
      (_ (user-error "Which of these is %s: %s" name
                     (mapconcat #'car found ", "))))))

(defvar rex-rpc--instances nil "Hosts that are instances of other programs here.")

(defun rex-rpc--forget-instance (host _why again)
  "Let HOST go that is an instance, else it is dialled AGAIN.
One that has ended need not be looked for: its name is never
given again."
  (when (and again (member host rex-rpc--instances))
    (rex-rpc--soon #'rex-rpc--send "host/disconnect" (list :name host) #'ignore)))
(add-hook 'rex-rpc-lost-functions #'rex-rpc--forget-instance)

;;;###autoload
(defun rex-attach (name)
  "Watch the session NAME of another program: [INSTANCE/]SESSION.
What it wrote before is shown first.  \\[rex-take] types into it,
\\[rex-watch] hands it back."
  (interactive (list (rex-rpc--read-session)))
  (let* ((entry (rex-rpc--found-session name))
         (info (cdr entry))
         (host (plist-get info :instance)))
    (cl-pushnew host rex-rpc--instances :test #'equal)
    (setf (alist-get host rex-rpc-hosts nil nil #'equal)
          (list :url (format "unix://%s/%s.sock" (rex-rpc--runtime-directory)
                             host)
                :install :json-false))
    (let ((view (rex-rpc--terminal
                 (get-buffer-create (format "*rex %s*" (car entry))) host))
          (offset (plist-get info :oldest)))
      (setf (rex-rpc--view-session view) (plist-get info :session)
            (rex-rpc--view-ready view) t
            (rex-rpc--view-role view) "observer")
      (when (eq (plist-get info :tty) t)
        (setf (rex-rpc--view-before view)
              (cons (plist-get info :cols) (plist-get info :rows)))
        (when (or (> offset 0)
                  (> (plist-get info :next) rex-rpc--replay-bytes))
          (setq offset (rex-rpc--show-screen view))))
      (rex-rpc--attach view (list :offset offset :role "observer"
                                  :newline "terminal")
                       nil)
      (current-buffer))))

(defun rex-rpc--show-screen (view)
  "Show the screen of VIEW's session as it is; return the offset behind it."
  (let ((screen (rex-rpc-request (rex-rpc--view-host view) "session/screen"
                                 (list :session (rex-rpc--view-session view)
                                       :format "ansi"))))
    (rex-rpc--show view
                   (encode-coding-string
                    (concat (string-trim-right
                             (string-join (plist-get screen :lines)
                                          "\e[m\r\n"))
                            "\e[m")
                    'utf-8))
    (plist-get screen :next)))

(defun rex-rpc--become (role takeover)
  "Become ROLE of this buffer's session; with TAKEOVER whoever is writer."
  (let ((view rex-rpc--view))
    (unless (and view (null (rex-rpc--view-over view)))
      (user-error "No running session in this buffer"))
    (let ((host (rex-rpc--view-host view)))
      (rex-rpc-request host "session/detach"
                       (list :attachment (rex-rpc--view-attachment view)))
      (when (and (equal role "observer") (rex-rpc--view-before view))
        (rex-rpc--resize view (rex-rpc--view-before view)))
      (let ((attach
             (lambda (role)
               (let ((attached
                      (rex-rpc-request
                       host "session/attach"
                       (append (list :session (rex-rpc--view-session view)
                                     :offset (rex-rpc--view-next view)
                                     :role role :newline "terminal")
                               (and takeover (equal role "writer")
                                    '(:takeover t))))))
                 (setf (rex-rpc--view-role view) role
                       (rex-rpc--view-attachment view)
                       (plist-get attached :attachment)
                       (rex-rpc--view-info view) (plist-get attached :info)
                       (rex-rpc--view-state view)
                       (plist-get (plist-get attached :info) :state)
                       (rex-rpc--view-prompt-at view)
                       (plist-get (plist-get attached :info) :next))))))
        (condition-case error
            (progn
              (funcall attach role)
              (rex-rpc--say view (if (equal role "writer") "typing" "watching")))
          (rex-rpc-error
           (funcall attach "observer")
           (user-error "%s; C-u M-x rex-take takes it all the same"
                       (cadr error)))))
      (when (equal role "writer")
        (rex-rpc--resize view (cons term-width term-height))
        (rex-rpc--prompt-if-due view)))))

(defun rex-take (&optional takeover)
  "Type into the session of this buffer.
Its own client can neither type nor run commands until it is
handed back by \\[rex-watch].  With TAKEOVER, the prefix argument,
also when another person does it."
  (interactive "P")
  (rex-rpc--become "writer" takeover))

(defun rex-watch ()
  "Hand the session of this buffer back, in the size it had, and watch on."
  (interactive)
  (rex-rpc--become "observer" nil))

(defun rex-rpc--writer-changed (view params)
  "Say in VIEW who types, if PARAMS tell of another writer than we are."
  (when (and (equal (plist-get params :event) "writerChanged")
             (equal (rex-rpc--view-role view) "writer")
             (plist-get params :writer)
             (not (string-match-p (format "emacs (pid %d)" (emacs-pid))
                                  (plist-get params :writer))))
    (setf (rex-rpc--view-role view) "observer")
    (rex-rpc--say view (concat (plist-get params :writer)
                               " types now; you watch"))))
(add-hook 'rex-rpc-view-functions #'rex-rpc--writer-changed)

;;;; Commands

;;;###autoload
(defun rex-run (host directory command)
  "Run COMMAND on HOST in DIRECTORY there, as `compile' does.
Errors in its output are places in files of the host."
  (interactive
   (let ((here (file-remote-p default-directory)))
     (if (rex-rpc-file-name-p default-directory)
         (list (rex-rpc--with-file default-directory host)
               (file-local-name (expand-file-name default-directory))
               (read-shell-command (format "Run on %s: " here)))
       (let ((host (rex-rpc-read-host "Run on host (default: here): ")))
         (list host (read-string "In directory: " "/")
               (read-shell-command "Run: "))))))
  (let ((default-directory (file-name-as-directory
                            (rex-rpc-file-name host directory))))
    (compilation-start command nil (lambda (_mode) (format "*rex-run %s*" host)))))

(provide 'rex-rpc-session)
;;; rex-rpc-session.el ends here
