;;; rex-rpc-process.el --- Processes of other machines  -*- lexical-binding: t; -*-

;;; Commentary:

;; What `make-process' and `process-file' do where `default-directory' is of a
;; host, and so compile, shell-command, version control and the rest.

;;; Code:

(require 'rex-rpc-attributes)
(require 'rex-rpc-views)

(defun rex-rpc--environment ()
  "What this Emacs has changed in its environment, for a process of a host."
  (let ((changes (make-hash-table :test #'equal)))
    (dolist (entry (reverse process-environment))
      (unless (member entry (default-toplevel-value 'process-environment))
        (if (string-match "\\`\\([^=]+\\)=\\(\\(?:.\\|\n\\)*\\)\\'" entry)
            (puthash (match-string 1 entry) (match-string 2 entry) changes)
          (puthash entry nil changes))))
    (remhash "INSIDE_EMACS" changes)
    changes))

(defun rex-rpc-handle-make-process (&rest args)
  "Like `make-process' with ARGS, for the host of `default-directory'."
  (when args
    (let* ((directory (expand-file-name default-directory))
           (tty (memq (if (plist-member args :connection-type)
                          (plist-get args :connection-type)
                        process-connection-type)
                      '(t pty)))
           (stderr (plist-get args :stderr))
           (command (plist-get args :command))
           (stderr (if (stringp stderr) (get-buffer-create stderr) stderr)))
      (rex-rpc--with-file directory
        (rex-rpc--reach host)
        (let ((view (rex-rpc--new-view
                     host :name (plist-get args :name)
                     :buffer (plist-get args :buffer)
                     :coding (plist-get args :coding)
                     :noquery (plist-get args :noquery)
                     :filter (plist-get args :filter)
                     :sentinel (plist-get args :sentinel)
                     :stop (plist-get args :stop))))
          (setf (rex-rpc--view-stderr-to view) stderr)
          (rex-rpc--create
           view
           (append (list :argv (vconcat
                                (unless (or tty stderr) ; one stream, in order
                                  '("/bin/sh" "-c" "exec \"$@\" 2>&1" "sh"))
                                command)
                         :tty (if tty t :json-false)
                         :env (rex-rpc--environment))
                   (rex-rpc--name-param "cwd" localname))
           (list :role "writer" :newline "raw"))
          (rex-rpc--view-stand-in view))))))

(defun rex-rpc-handle-process-file
    (program &optional infile destination _display &rest args)
  "Like `process-file' of PROGRAM with INFILE, DESTINATION and ARGS."
  (let ((real (if (consp destination) (car destination) destination))
        (errors (if (consp destination) (cadr destination) t))
        (input (if infile
                   (with-temp-buffer
                     (set-buffer-multibyte nil)
                     (insert-file-contents-literally infile)
                     (buffer-string))
                 "")))
    (rex-rpc--with-file default-directory
      (let* ((params (append
                      (list :command (vconcat (list program) args)
                            :env (rex-rpc--environment)
                            :maxOutputBytes 8388608
                            :mergeStderr (if (eq errors t) t :json-false))
                      (rex-rpc--name-param "cwd" localname)
                      (let ((data (rex-rpc--data input)))
                        (list :stdin (plist-get data :data)
                              :encoding (plist-get data :encoding))))))
        (if (eql real 0)                ; nobody waits for it
            (ignore (rex-rpc-request-async host "process/run" params #'ignore))
          (let ((result (rex-rpc-request host "process/run" params)))
            (tramp-flush-directory-properties v "/")
            (rex-rpc--deliver result :stdout real)
            (when (stringp errors)
              (with-temp-file errors
                (rex-rpc--deliver result :stderr t)))
            (when (plist-get (plist-get result :omitted) :stdout)
              (error "%s wrote more than is kept; it is not whole" program))
            (if-let ((signal (plist-get result :signal)))
                (format "signal %s" signal)
              (plist-get result :exitCode))))))))

(defun rex-rpc--deliver (result stream to)
  "Insert STREAM of RESULT into TO, a destination of `call-process'."
  (when-let ((buffer (cond ((eq to t) (current-buffer))
                           ((stringp to) (get-buffer-create to))
                           ((bufferp to) to))))
    (with-current-buffer buffer
      (insert (decode-coding-string
               (rex-rpc--bytes (list :data (plist-get result stream)
                                     :encoding (plist-get result :encoding)))
               (or coding-system-for-read 'utf-8))))))

(defun rex-rpc-handle-exec-path ()
  "Like function `exec-path', of the host of `default-directory'."
  (rex-rpc--with-file default-directory
    (with-tramp-file-property v "/" "rex-exec-path"
      (split-string
       (plist-get (rex-rpc-request host "process/run"
                                   '(:command "printf %s \"$PATH\""))
                  :stdout)
       ":" t))))

(provide 'rex-rpc-process)
;;; rex-rpc-process.el ends here
