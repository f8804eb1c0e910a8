;;; rex-rpc-attributes.el --- What files of a host are  -*- lexical-binding: t; -*-

;;; Commentary:

;; Names of files, /rex:HOST:/PATH, what they are, and what is in directories.
;; BASTION%BUILD7 is the host BUILD7 behind BASTION: Tramp leaves that sign to
;; hosts, and its own way to write hops to its own methods.
;;
;; What was told of a file is kept in Tramp's cache, for as long as
;; `remote-file-name-inhibit-cache' says, also that there is none.

;;; Code:

(require 'rex-rpc)
(require 'tramp)
(require 'seq)

(defconst rex-rpc-method "rex"
  "The method in file names.")

(defconst rex-rpc-here "localhost"
  "The host in names of this machine.")

(defun rex-rpc--host-of (vec)
  "The path of hosts in VEC, a file name that was taken apart."
  (let ((user (tramp-file-name-user vec))
        (host (tramp-file-name-host vec)))
    (if (equal host rex-rpc-here)
        ""
      (concat (and user (concat user "@"))
              (string-replace "%" "/" host)))))

(defun rex-rpc-file-name (host path)
  "The name of PATH on HOST, a path of names; \"\" is this machine."
  (format "/%s:%s:%s" rex-rpc-method
          (if (string-empty-p host) rex-rpc-here (string-replace "/" "%" host))
          path))

(defmacro rex-rpc--with-file (name &rest body)
  "Run BODY with `v', `localname' and `host' of the file NAME."
  (declare (indent 1) (debug (form body)))
  `(with-parsed-tramp-file-name (expand-file-name ,name) nil
     (let ((host (rex-rpc--host-of v)))
       (ignore host)
       ,@body)))

(defun rex-rpc--file-request (name request &rest params)
  "Send REQUEST with the path NAME and PARAMS to the host of NAME."
  (rex-rpc--with-file name
    (rex-rpc-request host request
                     (append (rex-rpc--name-param "path" localname) params))))

(defun rex-rpc--changed (name)
  "Forget what was known of the file NAME and its directory."
  (rex-rpc--with-file name
    (tramp-flush-directory-properties v localname)
    (tramp-flush-file-properties
     v (directory-file-name (file-name-directory localname)))))

;;;; What a file is

(defun rex-rpc--time (text)
  "The Emacs time of TEXT, as the wire has it: always so many digits, in UTC."
  (cl-flet ((number (from to) (string-to-number (substring text from to))))
    (let ((whole (encode-time (list (number 17 19) (number 14 16) (number 11 13)
                                    (number 8 10) (number 5 7) (number 0 4)
                                    nil nil t)))
          (digits (- (length text) 21)))
      (time-convert (if (> digits 0)
                        (time-add whole (cons (number 20 -1) (expt 10 digits)))
                      whole)
                    'list))))

(defconst rex-rpc--type-letters
  '(("file" . ?-) ("directory" . ?d) ("symlink" . ?l) ("fifo" . ?p)
    ("socket" . ?s) ("charDevice" . ?c) ("blockDevice" . ?b)))

(defun rex-rpc--attributes (stat id-format)
  "STAT as `file-attributes' has it; users by ID-FORMAT."
  (let* ((type (plist-get stat :type))
         (id (lambda (number)
               (if (eq id-format 'string) (number-to-string number) number)))
         (mode (plist-get stat :mode)))
    (list (pcase type
            ("directory" t)
            ("symlink" (or (rex-rpc--name stat "target") "")))
          1
          (funcall id (plist-get stat :uid))
          (funcall id (plist-get stat :gid))
          (rex-rpc--time (plist-get stat :mtime))
          (rex-rpc--time (plist-get stat :mtime))
          (rex-rpc--time (plist-get stat :ctime))
          (plist-get stat :size)
          (let ((modes (file-modes-number-to-symbolic mode)))
            (aset modes 0 (alist-get type rex-rpc--type-letters ?- nil #'equal))
            modes)
          nil
          (plist-get stat :etag)
          -1)))

(defvar rex-rpc--wanted nil
  "While names are collected that will be asked for: a hash table of them.")

(defun rex-rpc--stat (name follow)
  "What NAME is, or nil where there is nothing; through links if FOLLOW."
  (rex-rpc--with-file name
    (let ((key (if follow "rex-stat" "rex-lstat")))
      (if (and rex-rpc--wanted
               (eq 'unknown (tramp-get-file-property
                                v localname "rex-lstat" 'unknown)))
          (progn (puthash localname t rex-rpc--wanted) nil)
        (let ((known (and follow
                          (tramp-get-file-property v localname "rex-lstat"
                                                   'unknown))))
          (if (and follow (listp known)
                   (not (equal (plist-get known :type) "symlink")))
              known                     ; the same either way
            (with-tramp-file-property v localname key
              (condition-case nil
                  (or (and (not follow) (rex-rpc--listed v localname))
                      (rex-rpc--file-request name "file/stat"
                                             :follow (if follow t :json-false)))
                ;; Also what is behind a file, or may not be seen.
                (file-error nil)))))))))

(defun rex-rpc--listed (vec path)
  "The stat of PATH in its directory, if that was listed; VEC is its name."
  (when-let ((entries (tramp-get-file-property
                       vec (directory-file-name (file-name-directory path))
                       "rex-entries" nil)))
    (gethash (file-name-nondirectory path) entries)))

(defun rex-rpc-handle-file-attributes (name &optional id-format)
  "Like `file-attributes' for NAME with ID-FORMAT."
  (when-let ((stat (rex-rpc--stat name nil)))
    (rex-rpc--attributes stat id-format)))

(defvar-local rex-rpc--visited nil
  "A cons of the visited file and what it was when it was read or saved last.")
(put 'rex-rpc--visited 'permanent-local t)

(defun rex-rpc--untold-p (name)
  "Whether nothing is known of NAME that is not too old."
  (rex-rpc--with-file name
    (eq 'unknown (tramp-get-file-property v localname "rex-lstat" 'unknown))))

(defun rex-rpc--visits-p (name)
  "Whether NAME is what this buffer visits or its directory, and not known."
  (and rex-rpc--visited
       (member (expand-file-name name)
               (list (car rex-rpc--visited)
                     (file-name-directory (car rex-rpc--visited))))
       (rex-rpc--untold-p name)))

(defun rex-rpc-handle-file-exists-p (name)
  "Like `file-exists-p' for NAME.
Saving asks for its file and the directory: the write itself
tells if they have gone."
  (or (rex-rpc--visits-p name)
      (rex-rpc--seen-directory-p name)
      (and (rex-rpc--stat name nil) (rex-rpc--stat name t) t)))

(defun rex-rpc-handle-file-directory-p (name)
  "Like `file-directory-p' for NAME."
  (or (rex-rpc--seen-directory-p name)
      (and (rex-rpc--stat name nil)
           (equal (plist-get (rex-rpc--stat name t) :type) "directory"))))

(defun rex-rpc--seen-directory-p (name)
  "Whether NAME was seen to be a directory when others were looked for."
  (rex-rpc--with-file name
    (tramp-get-file-property v localname "rex-directory" nil)))

(defun rex-rpc-handle-file-regular-p (name)
  "Like `file-regular-p' for NAME."
  (and (rex-rpc--stat name nil)
       (equal (plist-get (rex-rpc--stat name t) :type) "file")))

(defun rex-rpc--permits (name bit)
  "Whether NAME may be used for BIT (4, 2, 1), by its mode alone.
To which groups the user belongs is not asked: the use itself tells."
  (when-let ((stat (rex-rpc--stat name t)))
    (rex-rpc--with-file name
      (let ((uid (plist-get (rex-rpc--machine host) :uid))
            (mode (plist-get stat :mode)))
        (cond ((eql uid 0) (or (/= bit 1) (/= 0 (logand mode #o111))
                               (equal (plist-get stat :type) "directory")))
              ((eql uid (plist-get stat :uid))
               (/= 0 (logand mode (ash bit 6))))
              (t (/= 0 (logand mode (logior (ash bit 3) bit)))))))))

(defun rex-rpc-handle-file-readable-p (name)
  "Like `file-readable-p' for NAME."
  (rex-rpc--permits name 4))

(defun rex-rpc-handle-file-executable-p (name)
  "Like `file-executable-p' for NAME."
  (rex-rpc--permits name 1))

(defun rex-rpc-handle-file-writable-p (name)
  "Like `file-writable-p' for NAME.
Saving asks for its file and the directory: the write itself
tells."
  (cond ((rex-rpc--visits-p name) t)
        ((rex-rpc--stat name t) (rex-rpc--permits name 2))
        (t (let ((directory (file-name-directory (directory-file-name name))))
             (and (file-directory-p directory)
                  (rex-rpc--permits directory 2))))))

;;;; Directories

(defun rex-rpc--entries (directory)
  "The entries of DIRECTORY, a hash table of stats by their names."
  (rex-rpc--with-file directory
    (with-tramp-file-property v localname "rex-entries"
      (let (all cursor (more t))
        (while more
          (let ((page (apply #'rex-rpc--file-request directory "file/list"
                             :limit 10000
                             (and cursor (list :cursor cursor)))))
            (setq all (nconc all (append (plist-get page :entries) nil))
                  cursor (plist-get page :cursor)
                  more cursor)))
        (let ((stats (make-hash-table :test #'equal :size (length all))))
          (dolist (entry all)
            (puthash (rex-rpc--name entry "name") entry stats))
          stats)))))

(defun rex-rpc--names (directory)
  "The names in DIRECTORY, with . and .. as the system has them."
  (append '("." "..")
          (hash-table-keys (rex-rpc--entries directory))))

(defun rex-rpc-handle-directory-files (directory &optional full match nosort count)
  "Like `directory-files' for DIRECTORY, FULL, MATCH, NOSORT and COUNT."
  (let* ((directory (file-name-as-directory (expand-file-name directory)))
         (names (cl-remove-if-not
                 (lambda (name) (or (null match) (string-match-p match name)))
                 (rex-rpc--names directory))))
    (unless nosort
      (setq names (sort names #'string<)))
    (when count
      (setq names (seq-take names count)))
    (if full (mapcar (lambda (name) (concat directory name)) names) names)))

(defun rex-rpc-handle-directory-files-and-attributes
    (directory &optional full match nosort id-format count)
  "Like `directory-files-and-attributes'.
DIRECTORY, FULL, MATCH, NOSORT, ID-FORMAT and COUNT are as there."
  (let ((stats (rex-rpc--entries directory))
        (directory (file-name-as-directory (expand-file-name directory))))
    (mapcar (lambda (name)
              (cons (if full (concat directory name) name)
                    (if-let ((stat (gethash name stats)))
                        (rex-rpc--attributes stat id-format)
                      (file-attributes (concat directory name) id-format))))
            (directory-files directory nil match nosort count))))

(defun rex-rpc-handle-file-name-all-completions (text directory)
  "Like `file-name-all-completions' for TEXT in DIRECTORY."
  (all-completions
   text
   (cl-loop for name being the hash-keys of
            (rex-rpc--entries (file-name-as-directory directory))
            using (hash-values stat)
            collect (if (equal (plist-get stat :type) "directory")
                        (file-name-as-directory name)
                      name))))

(provide 'rex-rpc-attributes)
;;; rex-rpc-attributes.el ends here
