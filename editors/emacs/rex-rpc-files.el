;;; rex-rpc-files.el --- Files named /rex:HOST:/PATH  -*- lexical-binding: t; -*-

;;; Commentary:

;; A method of Tramp, which takes names apart, caches what was asked of a file
;; (see `remote-file-name-inhibit-cache') and has the operations that follow
;; from others.  Those that ask the host are here and in rex-rpc-attributes.el.
;;
;; A buffer is saved by one atomic write, which the host refuses if the file is
;; not the one that was read: so nothing is asked before, and there are no
;; backups (`rex-rpc-make-backup-files') and no locks.
;;
;; It must not know how a host is reached.

;;; Code:

(require 'rex-rpc-attributes)
(require 'ls-lisp)

(defcustom rex-rpc-make-backup-files nil
  "Whether saving a file of a host makes a backup there."
  :type 'boolean
  :group 'rex-rpc)

(defconst rex-rpc--piece (* 4 1024 1024)
  "Bytes of a file in one answer; 8 MiB are allowed.")

;;;; Changes

(defun rex-rpc-handle-make-directory (directory &optional parents)
  "Like `make-directory' for DIRECTORY and PARENTS."
  (rex-rpc--file-request directory "file/mkdir"
                         :parents (if parents t :json-false))
  (rex-rpc--changed directory))

(defun rex-rpc-handle-delete-directory (directory &optional recursive _trash)
  "Like `delete-directory' for DIRECTORY and RECURSIVE."
  (rex-rpc--file-request directory "file/remove"
                         :recursive (if recursive t :json-false))
  (rex-rpc--changed directory))

(defun rex-rpc-handle-delete-file (name &optional _trash)
  "Like `delete-file' for NAME."
  (when (rex-rpc--stat name nil)
    (rex-rpc--file-request name "file/remove")
    (rex-rpc--changed name)))

(defun rex-rpc--end (name)
  "NAME as one end of a copy, from this machine."
  (if (rex-rpc-file-name-p name)
      (rex-rpc--with-file name
        (append (list :host host) (rex-rpc--name-param "path" localname)))
    (rex-rpc--name-param "path" (expand-file-name name))))

(defun rex-rpc--target (from to ok)
  "The name that FROM is to have at TO; ask about what is there unless OK."
  (let ((to (if (directory-name-p to)
                (concat to (file-name-nondirectory (directory-file-name from)))
              to)))
    (when (and (not (eq ok t)) (file-exists-p to)
               (not (and (integerp ok)
                         (y-or-n-p (format "%s exists; replace it? " to)))))
      (signal 'file-already-exists (list "File already exists" to)))
    to))

(defun rex-rpc-handle-copy-file (from to &optional ok keep-date _ids _attributes)
  "Like `copy-file' of FROM to TO with OK and KEEP-DATE, in one request.
Either may be of any host; times and modes are always kept."
  (ignore keep-date)
  (setq from (expand-file-name from)
        to (rex-rpc--target from (expand-file-name to) ok))
  (if (file-directory-p from)
      (copy-directory from to t)
    (rex-rpc-request "" "file/copy"
                     (list :from (rex-rpc--end from) :to (rex-rpc--end to)
                           :overwrite t))
    (when (rex-rpc-file-name-p to)
      (rex-rpc--changed to))))

(defun rex-rpc-handle-rename-file (from to &optional ok)
  "Like `rename-file' of FROM to TO with OK."
  (setq from (expand-file-name from)
        to (rex-rpc--target from (expand-file-name to) ok))
  (if (not (equal (file-remote-p from) (file-remote-p to)))
      (if (file-directory-p from)
          (progn (copy-directory from to t t)
                 (delete-directory from t))
        (copy-file from to t t)
        (delete-file from))
    (rex-rpc--with-file from
      (rex-rpc-request
       host "file/rename"
       (append (rex-rpc--name-param "from" localname)
               (rex-rpc--name-param "to" (tramp-file-local-name to))
               (list :overwrite t))))
    (rex-rpc--changed from)
    (rex-rpc--changed to)))

(defun rex-rpc-handle-make-symbolic-link (target link &optional ok)
  "Like `make-symbolic-link' to TARGET at LINK with OK."
  (setq link (rex-rpc--target target (expand-file-name link) ok))
  (when (rex-rpc--stat link nil)
    (delete-file link))
  (apply #'rex-rpc--file-request link "file/symlink"
         (rex-rpc--name-param "target" (if (tramp-tramp-file-p target)
                                           (tramp-file-local-name target)
                                         target)))
  (rex-rpc--changed link))

(defun rex-rpc-handle-set-file-modes (name mode &optional _flag)
  "Like `set-file-modes' of NAME to MODE."
  (rex-rpc--file-request name "file/setattr" :mode (logand mode #o7777))
  (rex-rpc--changed name))

(defun rex-rpc-handle-set-file-times (name &optional time _flag)
  "Like `set-file-times' of NAME to TIME."
  (rex-rpc--file-request name "file/setattr"
                         :mtime (format-time-string "%FT%T.%9NZ" time t))
  (rex-rpc--changed name)
  t)

;;;; Contents

(defun rex-rpc--fetch (name)
  "The bytes of the file NAME, and its etag, as a cons."
  (let* ((first (rex-rpc--file-request name "file/read" :length rex-rpc--piece
                                       :encoding "base64"))
         (etag (plist-get first :etag))
         (pieces (list (rex-rpc--bytes first)))
         (at (plist-get first :next))
         (size (plist-get first :size)))
    (while (< at size)
      (let ((piece (rex-rpc--file-request name "file/read" :offset at
                                          :length rex-rpc--piece
                                          :encoding "base64")))
        (unless (equal (plist-get piece :etag) etag)
          (signal 'file-error (list "It changed while it was read" name)))
        (push (rex-rpc--bytes piece) pieces)
        (setq at (plist-get piece :next))))
    (cons (apply #'concat (nreverse pieces)) etag)))

(defun rex-rpc--local-copy (name)
  "A private copy of the file NAME here, and its etag, as a cons."
  (let ((copy (make-temp-file "rex-rpc" nil (file-name-extension name t)))
        (got (rex-rpc--fetch name))
        (coding-system-for-write 'no-conversion))
    (write-region (car got) nil copy nil 'quiet)
    (cons copy (cdr got))))

(defun rex-rpc-handle-file-local-copy (name)
  "Like `file-local-copy' for NAME."
  (car (rex-rpc--local-copy name)))

(defun rex-rpc-handle-insert-file-contents
    (name &optional visit beg end replace)
  "Like `insert-file-contents' of NAME with VISIT, BEG, END and REPLACE."
  (barf-if-buffer-read-only)
  (setq name (expand-file-name name))
  (let (copy result)
    (unwind-protect
        (progn
          (unless (rex-rpc--stat name nil)
            (when visit
              (setq buffer-file-name name
                    rex-rpc--visited nil))
            (signal 'file-missing
                    (list "Opening input file" "No such file or directory"
                          name)))
          (setq copy (rex-rpc--local-copy name)
                result (insert-file-contents (car copy) nil beg end replace))
          (when visit
            (setq buffer-file-name name
                  rex-rpc--visited (cons name (cdr copy)))
            (setq-local backup-inhibited (not rex-rpc-make-backup-files))
            (set-visited-file-modtime)
            (set-buffer-modified-p nil)))
      (when copy
        (delete-file (car copy))))
    (list name (cadr result))))

(defun rex-rpc-handle-set-visited-file-modtime (&optional time)
  "Like `set-visited-file-modtime' to TIME; without, as was told last."
  (let ((time (or time (file-attribute-modification-time
                        (file-attributes buffer-file-name)))))
    (when time
      (tramp-run-real-handler #'set-visited-file-modtime (list time)))))

(defun rex-rpc--encoded (start end)
  "The bytes of this buffer from START to END, as Emacs would write them."
  (let ((copy (make-temp-file "rex-rpc"))
        create-lockfiles)
    (unwind-protect
        (progn
          (write-region start end copy nil 'quiet)
          (let (last-coding-system-used) ; saving sets the buffer's to this
            (with-temp-buffer
              (set-buffer-multibyte nil)
              (insert-file-contents-literally copy)
              (buffer-string))))
      (delete-file copy))))

(defun rex-rpc--write (name bytes &rest params)
  "Write BYTES to NAME as PARAMS say; return its stat."
  (apply #'rex-rpc--file-request name "file/write" :parents :json-false
         (append (rex-rpc--data bytes) params)))

(defun rex-rpc--write-guarded (name bytes guard)
  "Write BYTES to NAME under GUARD, a plist; else ask the user."
  (condition-case error
      (apply #'rex-rpc--write name bytes guard)
    (rex-rpc-error
     (unless (equal (nth 2 error) "Conflict")
       (signal (car error) (cdr error)))
     (let ((what (if (plist-get guard :ifMatch) "has changed since it was read"
                   "is there already")))
       (unless (and (not noninteractive)
                    (yes-or-no-p (format "%s %s; replace it? " name what)))
         (signal 'file-error (list (concat "It " what) name))))
     (rex-rpc--write name bytes))))

(defun rex-rpc-handle-write-region
    (start end name &optional append visit _lockname mustbenew)
  "Like `write-region' from START to END of this buffer to NAME.
APPEND, VISIT and MUSTBENEW are as there.  A visited file is not
written where somebody else has changed it, unless the user says
so."
  (setq name (expand-file-name name))
  (when (integerp append)
    (signal 'file-error (list "Cannot write at an offset" name)))
  (let* ((visits (or (eq visit t) (stringp visit)))
         (etag (and (equal (car rex-rpc--visited) name) (cdr rex-rpc--visited)))
         (bytes (rex-rpc--encoded start end))
         (stat (cond (append (rex-rpc--write name bytes :append t))
                     (mustbenew
                      (rex-rpc--write-guarded name bytes '(:ifAbsent t)))
                     ((not visits) (rex-rpc--write name bytes))
                     (etag (rex-rpc--write-guarded name bytes
                                                   (list :ifMatch etag)))
                     (t (rex-rpc--write-guarded name bytes '(:ifAbsent t))))))
    (rex-rpc--changed name)
    (rex-rpc--with-file name
      (tramp-set-file-property v localname "rex-lstat" stat))
    (when visits
      (setq buffer-file-name (if (stringp visit) visit name)
            rex-rpc--visited (cons name (plist-get stat :etag)))
      (set-buffer-modified-p nil)
      (set-visited-file-modtime (rex-rpc--time (plist-get stat :mtime))))
    (when (and (or visits (null visit)) (not noninteractive))
      (message "Wrote %s" name))
    nil))

(defun rex-rpc-handle-verify-visited-file-modtime (&optional _buffer)
  "Like `verify-visited-file-modtime': the host itself sees, when it writes."
  t)

(defun rex-rpc-handle-make-auto-save-file-name ()
  "Like `make-auto-save-file-name': here, in a private directory."
  (let ((directory (locate-user-emacs-file "rex-rpc-auto-save/")))
    (with-file-modes #o700
      (make-directory directory t))
    (expand-file-name
     (format "#%s#" (subst-char-in-string ?/ ?! buffer-file-name))
     directory)))

;;;; Version control

(defun rex-rpc-handle-vc-registered (name)
  "Like `vc-registered' for NAME.
Which of the many names are there that the back ends look for is
asked in one request."
  (rex-rpc--with-file name
    (let ((rex-rpc--wanted (make-hash-table :test #'equal)))
      (ignore-errors (tramp-run-real-handler #'vc-registered (list name)))
      (let* ((wanted (hash-table-keys rex-rpc--wanted))
             (answer (and wanted
                          (rex-rpc-request
                           host "process/run"
                           (list :command
                                 (vconcat
                                  '("/bin/sh" "-c" "for f; do if [ -d \"$f\" ]; then printf 'd%s/\\n' \"$f\"; elif [ -e \"$f\" ]; then printf ' %s/\\n' \"$f\"; fi; done" "sh")
                                  (mapcar (lambda (path)
                                            (encode-coding-string path 'utf-8))
                                          wanted))
                                 :maxOutputBytes 1048576))))
             (there (split-string (or (plist-get answer :stdout) "") "/\n" t)))
        (dolist (path wanted)
          (cond ((member (concat "d" path) there)
                 (tramp-set-file-property v path "rex-directory" t))
                ((not (member (concat " " path) there))
                 (tramp-set-file-property v path "rex-lstat" nil))))))
    (tramp-run-real-handler #'vc-registered (list name))))

;;;; The handler

(defconst rex-rpc-file-name-handler-alist
  '((access-file . tramp-handle-access-file)
    (add-name-to-file . tramp-handle-add-name-to-file)
    (copy-directory . tramp-handle-copy-directory)
    (copy-file . rex-rpc-handle-copy-file)
    (delete-directory . rex-rpc-handle-delete-directory)
    (delete-file . rex-rpc-handle-delete-file)
    (directory-file-name . tramp-handle-directory-file-name)
    (directory-files . rex-rpc-handle-directory-files)
    (directory-files-and-attributes
     . rex-rpc-handle-directory-files-and-attributes)
    (dired-compress-file . ignore)
    (dired-uncache . tramp-handle-dired-uncache)
    (exec-path . rex-rpc-handle-exec-path)
    (expand-file-name . tramp-handle-expand-file-name)
    (file-accessible-directory-p . tramp-handle-file-accessible-directory-p)
    (file-acl . ignore)
    (file-attributes . rex-rpc-handle-file-attributes)
    (file-directory-p . rex-rpc-handle-file-directory-p)
    (file-equal-p . tramp-handle-file-equal-p)
    (file-executable-p . rex-rpc-handle-file-executable-p)
    (file-exists-p . rex-rpc-handle-file-exists-p)
    (file-in-directory-p . tramp-handle-file-in-directory-p)
    (file-local-copy . rex-rpc-handle-file-local-copy)
    (file-locked-p . ignore)
    (file-modes . tramp-handle-file-modes)
    (file-name-all-completions . rex-rpc-handle-file-name-all-completions)
    (file-name-as-directory . tramp-handle-file-name-as-directory)
    (file-name-case-insensitive-p . ignore)
    (file-name-completion . tramp-handle-file-name-completion)
    (file-name-directory . tramp-handle-file-name-directory)
    (file-name-nondirectory . tramp-handle-file-name-nondirectory)
    (file-newer-than-file-p . tramp-handle-file-newer-than-file-p)
    (file-notify-add-watch . tramp-handle-file-notify-add-watch)
    (file-notify-rm-watch . tramp-handle-file-notify-rm-watch)
    (file-notify-valid-p . tramp-handle-file-notify-valid-p)
    (file-ownership-preserved-p . ignore)
    (file-readable-p . rex-rpc-handle-file-readable-p)
    (file-regular-p . rex-rpc-handle-file-regular-p)
    (file-remote-p . tramp-handle-file-remote-p)
    (file-selinux-context . tramp-handle-file-selinux-context)
    (file-symlink-p . tramp-handle-file-symlink-p)
    (file-system-info . ignore)
    (file-truename . tramp-handle-file-truename)
    (file-writable-p . rex-rpc-handle-file-writable-p)
    (find-backup-file-name . tramp-handle-find-backup-file-name)
    (insert-directory . tramp-handle-insert-directory)
    (insert-file-contents . rex-rpc-handle-insert-file-contents)
    (load . tramp-handle-load)
    (lock-file . ignore)
    (make-auto-save-file-name . rex-rpc-handle-make-auto-save-file-name)
    (make-directory . rex-rpc-handle-make-directory)
    (make-directory-internal . ignore)
    (make-lock-file-name . ignore)
    (make-nearby-temp-file . tramp-handle-make-nearby-temp-file)
    (make-process . rex-rpc-handle-make-process)
    (make-symbolic-link . rex-rpc-handle-make-symbolic-link)
    (process-file . rex-rpc-handle-process-file)
    (rename-file . rex-rpc-handle-rename-file)
    (set-file-acl . ignore)
    (set-file-modes . rex-rpc-handle-set-file-modes)
    (set-file-selinux-context . ignore)
    (set-file-times . rex-rpc-handle-set-file-times)
    (set-visited-file-modtime . rex-rpc-handle-set-visited-file-modtime)
    (shell-command . tramp-handle-shell-command)
    (start-file-process . tramp-handle-start-file-process)
    (substitute-in-file-name . tramp-handle-substitute-in-file-name)
    (temporary-file-directory . tramp-handle-temporary-file-directory)
    (tramp-get-remote-gid . ignore)
    (tramp-get-remote-uid . ignore)
    (tramp-set-file-uid-gid . ignore)
    (unhandled-file-name-directory . ignore)
    (unlock-file . ignore)
    (vc-registered . rex-rpc-handle-vc-registered)
    (verify-visited-file-modtime
     . rex-rpc-handle-verify-visited-file-modtime)
    (write-region . rex-rpc-handle-write-region))
  "Handlers of operations; others have their default.")

(defun rex-rpc-file-name-p (name)
  "Whether NAME, or a NAME that was taken apart, is of a host of rex-rpc."
  (cond ((stringp name)
         (and (tramp-tramp-file-p name)
              (string= (tramp-file-name-method (tramp-dissect-file-name name))
                       rex-rpc-method)))
        ((tramp-file-name-p name)
         (string= (tramp-file-name-method name) rex-rpc-method))))

(defun rex-rpc-file-name-handler (operation &rest args)
  "Do OPERATION with ARGS."
  (if-let ((handler (alist-get operation rex-rpc-file-name-handler-alist)))
      (let (signal-hook-function)       ; Tramp's would make one text of an error
        (save-match-data (apply handler args)))
    (tramp-run-real-handler operation args)))

(add-to-list 'tramp-methods `(,rex-rpc-method (tramp-tmpdir "/tmp")
                                              (tramp-remote-shell "/bin/sh")
                                              (tramp-remote-shell-args ("-c"))))
(tramp-register-foreign-file-name-handler
 #'rex-rpc-file-name-p #'rex-rpc-file-name-handler)

(provide 'rex-rpc-files)
;;; rex-rpc-files.el ends here
