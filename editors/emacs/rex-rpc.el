;;; rex-rpc.el --- Shells, files and commands of other machines  -*- lexical-binding: t; -*-

;; Version: 0.1.0
;; Package-Requires: ((emacs "28.1"))
;; Keywords: comm, processes, files, terminals

;;; Commentary:

;; One rex-rpc for this Emacs, which speaks JSON-RPC over its standard input
;; and output, and which is started when it is first needed.  With it:
;;
;;   M-x rex-shell       a shell on a host, in a `term-mode' buffer
;;   M-x rex-attach      a session of another program, an agent's for example
;;   M-x rex-run         a command on a host, in a `compilation-mode' buffer
;;   /rex:HOST:/PATH     files, for everything that takes a file name
;;
;; HOST is a name of ~/.config/rex-rpc/hosts.json or of `rex-rpc-hosts'.
;; Hosts behind each other are bastion/build7, in names of files
;; /rex:bastion%build7:/PATH.
;;
;; This file has the connection, hosts and what they ask.  It must not know
;; buffers or files.

;;; Code:

(require 'cl-lib)
(require 'jsonrpc)
(require 'subr-x)

(defgroup rex-rpc nil
  "Shells, files and commands of other machines."
  :group 'processes
  :prefix "rex-rpc-")

(defcustom rex-rpc-command '("rex-rpc")
  "The program and its arguments."
  :type '(repeat string))

(defcustom rex-rpc-hosts nil
  "Hosts beside those of ~/.config/rex-rpc/hosts.json.
An alist of names and property lists, which have what the method
host/connect takes: `:url', `:argv' (a vector) or `:deployment'.
A name with slashes is a host behind others:

    ((\"gpu\" :url \"ssh://me@gpu\")
     (\"gpu/web\" :argv [\"docker\" \"exec\" \"-i\" \"web\" \"sh\"]))"
  :type '(alist :key-type string :value-type plist))

(define-error 'rex-rpc-error "Rex-rpc")

;;;; The connection

(defclass rex-rpc--connection (jsonrpc-process-connection)
  ((last-id :initform nil :documentation "Of the newest request."))
  "A connection that knows the ids of its requests and may answer later.")

(cl-defstruct rex-rpc--later
  "The answer to a request of the server that a person has to give."
  params)

(defvar rex-rpc--server nil "The connection while there is one.")
(defvar rex-rpc--machine nil "What `initialize' said of this machine, a plist.")
(defvar rex-rpc--connected nil "Paths of `rex-rpc-hosts' that are connected.")
(defvar rex-rpc--states (make-hash-table :test #'equal)
  "The newest host/status of each host.")

(defvar rex-rpc--missed nil "Hosts from their loss until they are there again.")

(defvar rex-rpc-notification-functions nil
  "Functions called with each notification, as METHOD and PARAMS.
They run in a process filter: they must neither wait nor fail.")
(defvar rex-rpc-lost-functions nil
  "Functions called with HOST, a text and AGAIN when a host is lost.
\"\" is this machine: the program itself has ended.  AGAIN says that
the host is dialled again by itself, and that what is attached
there goes on then.  They run as those of
`rex-rpc-notification-functions' do.")

;; A dispatcher has to answer before it returns, and a person takes longer:
;; nothing else would be read meanwhile.  So that answer is held back here.
(cl-defmethod jsonrpc-connection-send ((connection rex-rpc--connection)
                                       &key id method result &allow-other-keys)
  "Send a message over CONNECTION, and remember ID if it is a request's METHOD.
RESULT may be one that comes later."
  (if (rex-rpc--later-p result)
      (run-at-time 0 nil #'rex-rpc--ask connection id
                   (rex-rpc--later-params result))
    (when (and id method)
      (setf (slot-value connection 'last-id) id))
    (cl-call-next-method)))

(defun rex-rpc--printable (text)
  "TEXT of the far side without what could act on a terminal."
  (replace-regexp-in-string "[[:cntrl:]]" " " (format "%s" (or text ""))))

(defun rex-rpc--ask (connection id params)
  "Answer the question ID of CONNECTION, with PARAMS."
  (let* ((question
          (format "Host %s asks for %s.  It says: %s "
                  (rex-rpc--printable (plist-get params :host))
                  (if (equal (plist-get params :kind) "hostKey")
                      "a yes to its key"
                    (concat "a " (plist-get params :kind)))
                  (rex-rpc--printable (plist-get params :text))))
         (answer (with-local-quit
                   (if (eq (plist-get params :secret) t)
                       (read-passwd question)
                     (read-string question)))))
    (when (jsonrpc-running-p connection)
      (if (or (null answer) (string-empty-p answer))
          (jsonrpc-connection-send
           connection :id id
           :error '(:code -32800 :message "nobody has answered"))
        (jsonrpc-connection-send
         connection :id id :result (list :answer answer))))))

(defun rex-rpc--requested (_connection method params)
  "Answer METHOD with PARAMS, a request of the server."
  (if (eq method 'host/prompt)
      (make-rex-rpc--later :params params)
    (jsonrpc-error :code -32601 :message "not offered by this client")))

(defun rex-rpc--behind-p (host other)
  "Whether OTHER is HOST or is reached through it."
  (or (string-empty-p host) (equal host other)
      (string-prefix-p (concat host "/") other)))

(defun rex-rpc--lost (host why &optional again)
  "Forget what was on HOST and behind it; WHY is told, and AGAIN as there."
  (setq rex-rpc--connected
        (cl-remove-if (lambda (path) (rex-rpc--behind-p host path))
                      rex-rpc--connected))
  (run-hook-with-args 'rex-rpc-lost-functions host why again))

(defun rex-rpc--notified (_connection method params)
  "Take METHOD with PARAMS, a notification of the server."
  (with-demoted-errors "rex-rpc: %S"
    (when (eq method 'host/status)
      (let ((host (plist-get params :host))
            (state (plist-get params :state)))
        (puthash host params rex-rpc--states)
        (when (equal state "ready")
          (setq rex-rpc--missed (delete host rex-rpc--missed)))
        (when (member state '("lost" "closed"))
          (let ((why (format "host %s is %s: %s" host state
                             (rex-rpc--printable (plist-get params :detail)))))
            (when (and (equal state "lost") (not (member host rex-rpc--missed)))
              (push host rex-rpc--missed)
              (message "rex-rpc: %s" why))
            (rex-rpc--lost host why (and (equal state "lost")
                                         (plist-get params :retryMs)))))))
    (run-hook-with-args 'rex-rpc-notification-functions method params)))

(defun rex-rpc--ended (connection)
  "Say that the program of CONNECTION has ended."
  (when (eq connection rex-rpc--server)
    (setq rex-rpc--server nil
          rex-rpc--machine nil)
    (clrhash rex-rpc--states)
    (setq rex-rpc--missed nil)
    (rex-rpc--lost "" "rex-rpc has ended")))

(defun rex-rpc--start ()
  "The connection; it is made if there is none."
  (unless (and rex-rpc--server (jsonrpc-running-p rex-rpc--server))
    (let ((default-directory temporary-file-directory))
      (setq rex-rpc--server
            (make-instance
             'rex-rpc--connection
             :name "rex-rpc"
             :events-buffer-scrollback-size 0
             :process (lambda ()
                        (make-process
                         :name "rex-rpc" :command rex-rpc-command
                         :connection-type 'pipe :noquery t
                         :coding 'utf-8-emacs-unix
                         :stderr (get-buffer-create "*rex-rpc stderr*")))
             :request-dispatcher #'rex-rpc--requested
             :notification-dispatcher #'rex-rpc--notified
             :on-shutdown #'rex-rpc--ended)))
    (rex-rpc--send
     "initialize"
     (list :protocolVersion "1.0" :processId (emacs-pid)
           :clientInfo (list :name (format "emacs (pid %d)" (emacs-pid)))
           :capabilities '(:prompt t))
     (lambda (error result)
       (when error
         (message "rex-rpc: %s" (plist-get error :message)))
       (setq rex-rpc--machine (or (plist-get result :machine) '(:uid nil))))))
  rex-rpc--server)

(defun rex-rpc--send (method params done)
  "Send METHOD with PARAMS; call DONE with an error or nil, and the result.
DONE runs in a process filter: it must neither wait nor fail.
Return the request's id."
  (jsonrpc-async-request
   rex-rpc--server (intern method) params
   :timeout nil
   :success-fn (lambda (result)
                 (with-demoted-errors "rex-rpc: %S" (funcall done nil result)))
   :error-fn (lambda (error)
               (with-demoted-errors "rex-rpc: %S" (funcall done error nil))))
  (slot-value rex-rpc--server 'last-id))

(defun rex-rpc--wait (id done)
  "Wait until DONE gives non-nil for request ID; a quit cancels it."
  (let ((over nil)
        (read-process-output-max (* 1024 1024))
        (gc-cons-threshold (max gc-cons-threshold (* 64 1024 1024))))
    (unwind-protect
        (progn
          (while (not (funcall done))
            ;; A timer that waits may have read the answer meanwhile.
            (accept-process-output nil 0.05))
          (setq over t))
      (unless over
        (rex-rpc-notify '$/cancelRequest (list :id id))))))

(defun rex-rpc-notify (method params)
  "Send the notification METHOD with PARAMS."
  (when (and rex-rpc--server (jsonrpc-running-p rex-rpc--server))
    (jsonrpc-notify rex-rpc--server method params)))

(defun rex-rpc--call (method params)
  "Send METHOD with PARAMS and wait; return an error or nil, and the result."
  (let* (answer
         (id (rex-rpc--send method params
                            (lambda (&rest both) (setq answer both)))))
    (rex-rpc--wait id (lambda () answer))
    answer))

(defun rex-rpc--signal (error)
  "Signal ERROR, an answer, as what Emacs has for it."
  (let* ((data (plist-get error :data))
         (message (plist-get error :message))
         (path (or (plist-get data :path) "")))
    (pcase (plist-get data :name)
      ("ENOENT" (signal 'file-missing
                        (list "rex-rpc" "No such file or directory" path)))
      ("EEXIST" (signal 'file-already-exists (list "File already exists" path)))
      ((pred stringp) (signal 'file-error (list "rex-rpc" message path)))
      (_ (signal 'rex-rpc-error (list message (plist-get data :type)))))))

;;;; Hosts

(defun rex-rpc--reach (host)
  "Connect what `rex-rpc-hosts' has on the way to HOST, nearest first."
  (rex-rpc--start)
  (let ((path ""))
    (dolist (name (split-string host "/" t))
      (let* ((parent path)
             (target (progn
                       (setq path (if (string-empty-p parent) name
                                    (concat parent "/" name)))
                       (assoc path rex-rpc-hosts))))
        (when (and target (not (member path rex-rpc--connected)))
          (pcase-let ((`(,error ,_)
                       (rex-rpc--call "host/connect"
                                      (append (list :name name :host parent)
                                              (cdr target)))))
            (when error
              (rex-rpc--signal error)))
          (push path rex-rpc--connected))))))

(defun rex-rpc-request-async (host method params done)
  "Send METHOD with PARAMS to HOST; call DONE with an error or nil, and the result.
DONE runs in a process filter: it must neither wait nor fail.
Any number of requests may be under way.  Return the request's id."
  (rex-rpc--reach host)
  (rex-rpc--send method (append params (list :host host)) done))

(defun rex-rpc-request (host method params)
  "Send METHOD with PARAMS to HOST, wait, and return the result.
An answer that is an error is signalled.  Quitting cancels it."
  (rex-rpc--reach host)
  (pcase-let ((`(,error ,result)
               (rex-rpc--call method (append params (list :host host)))))
    (if error (rex-rpc--signal error) result)))

(defun rex-rpc--machine (host)
  "What is known of the machine HOST, a plist."
  (if (string-empty-p host)
      (progn
        (rex-rpc--start)
        (while (and (null rex-rpc--machine) rex-rpc--server)
          (accept-process-output nil 0.05))
        rex-rpc--machine)
    (let ((known (gethash host rex-rpc--states)))
      (or (plist-get known :machine)
          (let* ((parts (split-string host "/"))
                 (machine (progn
                            (rex-rpc-request host "ping" nil)
                            (plist-get (rex-rpc-request
                                        (string-join (butlast parts) "/")
                                        "host/info"
                                        (list :name (car (last parts))))
                                       :machine))))
            (puthash host (append (gethash host rex-rpc--states)
                                  (list :machine machine))
                     rex-rpc--states)
            machine)))))

(defun rex-rpc-host-names ()
  "All hosts that can be named, with their states, as an alist."
  (let ((names (mapcar (lambda (entry) (cons (car entry) "closed"))
                       rex-rpc-hosts)))
    (seq-doseq (info (plist-get (rex-rpc-request "" "host/list" nil) :hosts))
      (setf (alist-get (plist-get info :name) names nil nil #'equal)
            (plist-get info :state)))
    names))

(defun rex-rpc-read-host (prompt)
  "Ask for a host with PROMPT; \"\" is this machine."
  (let ((names (rex-rpc-host-names)))
    (completing-read
     prompt
     (lambda (text predicate action)
       (if (eq action 'metadata)
           `(metadata (annotation-function
                       . ,(lambda (name)
                            (concat "  " (cdr (assoc name names))))))
         (complete-with-action action names text predicate))))))

;;;; Bytes

;; Emacs 28 reads no JSON with a NUL in it, and a message that is not read is an
;; answer that never comes.  So a NUL comes as U+FFFF, which is no character.
(defun rex-rpc--without-nul (read)
  "Call READ, of jsonrpc, behind a change of each NUL in a message of ours."
  (when (and rex-rpc--server
             (eq (current-buffer)
                 (process-buffer (jsonrpc--process rex-rpc--server))))
    (save-excursion
      (while (search-forward "\\u0000" nil t)
        (let ((end (point)))
          (goto-char (- end 6))
          (when (cl-evenp (skip-chars-backward "\\\\")) ; no escaped backslash
            (goto-char end)
            (replace-match "\\uffff" t t))
          (goto-char end)))))
  (funcall read))
(advice-add 'jsonrpc--json-read :around #'rex-rpc--without-nul)

(defun rex-rpc--bytes (answer)
  "The bytes that `:data' and `:encoding' of ANSWER mean, a unibyte string."
  (if (equal (plist-get answer :encoding) "base64")
      (base64-decode-string (plist-get answer :data))
    (encode-coding-string (string-replace "\uffff" "\0" (plist-get answer :data))
                          'utf-8-unix t)))

(defun rex-rpc--data (bytes)
  "`:data' and `:encoding' for BYTES, a unibyte string."
  (let ((text (decode-coding-string bytes 'utf-8-unix t)))
    (if (string-match-p "[\0\x3fff80-\x3fffff]" text)
        (list :data (base64-encode-string bytes t) :encoding "base64")
      (list :data text :encoding "utf-8"))))

(defun rex-rpc--name-param (member name)
  "MEMBER with the file name NAME, or its bytes where it is no text."
  (let* ((bytes (encode-coding-string
                 name (or file-name-coding-system
                          default-file-name-coding-system 'utf-8)))
         (data (rex-rpc--data bytes)))
    (if (equal (plist-get data :encoding) "utf-8")
        (list (intern (concat ":" member)) (plist-get data :data))
      (list (intern (concat ":" member "Bytes")) (plist-get data :data)))))

(defun rex-rpc--name (entry member)
  "The file name MEMBER of ENTRY, as Emacs writes it."
  (or (plist-get entry (intern (concat ":" member)))
      (when-let ((bytes (plist-get entry (intern (concat ":" member "Bytes")))))
        (decode-coding-string
         (base64-decode-string bytes)
         (or file-name-coding-system default-file-name-coding-system 'utf-8)))))

(provide 'rex-rpc)

(require 'rex-rpc-files)
(require 'rex-rpc-process)
(require 'rex-rpc-session)

;;; rex-rpc.el ends here
