;;; rex-rpc-tests.el --- Tests without a screen  -*- lexical-binding: t; -*-

;;; Commentary:

;; Run by test_emacs.py, which tells by $REX_TEST_... which program, folder and
;; number of hosts behind each other there are.

;;; Code:

(require 'comint)
(require 'ert)
(require 'dired)
(require 'vc)
(require 'rex-rpc)

(defconst rex-tests-folder (getenv "REX_TEST_FOLDER"))
(defconst rex-tests-hops (string-to-number (getenv "REX_TEST_HOPS")))
(defconst rex-tests-host
  (string-join (make-list rex-tests-hops "hop") "/"))

(defconst rex-tests-idle (if (getenv "REX_LONG") 60 1)
  "Seconds in which nothing is to be asked, which has no event to wait for.")

(setq rex-rpc-command (append (json-parse-string (getenv "REX_TEST_COMMAND")) nil)
      rex-rpc-hosts
      (let ((target (list :argv (vector (getenv "REX_RPC")))))
        (cl-loop for n from 1 to rex-tests-hops
                 collect (cons (string-join (make-list n "hop") "/") target)))
      vc-handled-backends '(Git)
      make-backup-files t
      large-file-warning-threshold nil
      ;; A slow machine takes longer than what is known is kept.
      remote-file-name-inhibit-cache nil
      mode-require-final-newline nil)

(defun rex-tests-name (name)
  "NAME in the folder, as the host has it."
  (rex-rpc-file-name rex-tests-host (concat rex-tests-folder "/" name)))

(defun rex-tests-put (name bytes)
  "Make the file NAME of BYTES, here."
  (let ((coding-system-for-write 'no-conversion))
    (make-directory (file-name-directory (concat rex-tests-folder "/" name)) t)
    (write-region bytes nil (concat rex-tests-folder "/" name) nil 'quiet)))

(defun rex-tests-bytes (name)
  "The bytes of the file NAME, here."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally (concat rex-tests-folder "/" name))
    (buffer-string)))

(defun rex-tests-asked ()
  "The methods of all requests so far."
  (with-temp-buffer
    (insert-file-contents (getenv "REX_TEST_COUNTS"))
    (split-string (buffer-string) "\n" t)))

(defmacro rex-tests-asks (&rest body)
  "The methods that BODY requests."
  `(let ((before (length (rex-tests-asked))))
     ,@body
     (nthcdr before (rex-tests-asked))))

(defun rex-tests-until (fact)
  "Wait until FACT gives non-nil, and return that."
  (let ((end (time-add nil 60)) value)
    (while (not (setq value (funcall fact)))
      (when (time-less-p end nil)
        (ert-fail "never"))
      (accept-process-output nil 0.05))
    value))

(defmacro rex-tests-visiting (name &rest body)
  "Run BODY in a buffer on the file NAME of the host."
  (declare (indent 1))
  `(let ((buffer (find-file-noselect (rex-tests-name ,name))))
     (unwind-protect
         (with-current-buffer buffer ,@body)
       (with-current-buffer buffer (set-buffer-modified-p nil))
       (kill-buffer buffer))))

(ert-deftest rex-opening-is-a-stat-and-a-read-saving-a-write-idling-nothing ()
  (rex-tests-put "a.txt" "one\n")
  (rex-tests-put "warm" "")
  (file-writable-p (rex-tests-name "warm"))
  (let ((vc-handled-backends nil) buffer)
    (should (equal (rex-tests-asks
                    (setq buffer (find-file-noselect (rex-tests-name "a.txt"))))
                   '("file/stat" "file/read")))
    (with-current-buffer buffer
      (should (equal (buffer-string) "one\n"))
      (should-not buffer-read-only)
      (goto-char (point-max))
      (insert "two\n")
      (should (equal (rex-tests-asks (save-buffer)) '("file/write")))
      (should (equal (rex-tests-bytes "a.txt") "one\ntwo\n"))
      (insert "three\n")
      (rex-rpc--changed buffer-file-name) ; as if what is known were too old
      (should (equal (rex-tests-asks (save-buffer)) '("file/write")))
      (should-not (file-exists-p (concat rex-tests-folder "/a.txt~")))
      (should (equal (rex-tests-asks (sleep-for rex-tests-idle)) nil))
      (kill-buffer)))
  ;; Version control looks for its directories, once: one request for all names,
  ;; and a stat for each that is there.
  (let ((remote-file-name-inhibit-cache nil))
    (rex-tests-put "b.txt" "one\n")
    (let ((asked (rex-tests-asks
                  (kill-buffer (find-file-noselect (rex-tests-name "b.txt"))))))
      (should (equal (seq-take asked 3)
                     '("file/stat" "file/read" "process/run")))
      (should (equal (seq-uniq (nthcdr 3 asked)) '("file/stat"))))
    (rex-tests-put "c.txt" "one\n")
    (should (equal (rex-tests-asks
                    (kill-buffer (find-file-noselect (rex-tests-name "c.txt"))))
                   '("file/stat" "file/read")))))

(ert-deftest rex-a-file-keeps-its-bytes ()
  (dolist (bytes (list "a\r\nb\r\n" "a\nb\n" "a\nb" "gr\303\274n\n" "gr\374n\n" ""
                       "\357\273\277a\n" "a\0b\n"
                       (concat (make-string (1- (* 4 1024 1024)) ?x)
                               "\303\274\n")))
    (rex-tests-put "bytes" bytes)
    (rex-tests-visiting "bytes"
      (setq-local require-final-newline nil) ; else Emacs adds one
      (set-buffer-modified-p t)
      (save-buffer))
    (should (equal (rex-tests-bytes "bytes") bytes))))

(ert-deftest rex-a-file-that-somebody-else-has-changed-is-not-overwritten ()
  (rex-tests-put "shared" "mine\n")
  (rex-tests-visiting "shared"
    (rex-tests-put "shared" "theirs, longer\n")
    (insert "also ")
    (should-error (save-buffer) :type 'file-error)
    (should (equal (rex-tests-bytes "shared") "theirs, longer\n"))
    (should (buffer-modified-p))
    (revert-buffer t t)
    (should (equal (buffer-string) "theirs, longer\n"))
    (goto-char (point-min))
    (insert "also ")
    (save-buffer)
    (should (equal (rex-tests-bytes "shared") "also theirs, longer\n"))))

(ert-deftest rex-a-new-file-is-made-once ()
  (make-directory (rex-tests-name "new"))
  (rex-tests-visiting "new/er.txt"
    (insert "new\n")
    (rex-tests-put "new/er.txt" "of another\n")
    (should-error (save-buffer) :type 'file-error)
    (should (equal (rex-tests-bytes "new/er.txt") "of another\n"))
    (delete-file (concat rex-tests-folder "/new/er.txt"))
    (save-buffer)
    (should (equal (rex-tests-bytes "new/er.txt") "new\n"))))

(ert-deftest rex-files-are-what-they-are-here ()
  (rex-tests-put "what/file" "12345")
  (let ((here (concat rex-tests-folder "/what/")))
    (make-symbolic-link "file" (concat here "link") t)
    (make-symbolic-link "nowhere" (concat here "dangling") t)
    (make-directory (concat here "dir") t)
    (set-file-modes (concat here "file") #o750)
    (dolist (name '("file" "link" "dangling" "dir" "none" "file/below" "dir/.."))
      (let ((there (rex-tests-name (concat "what/" name)))
            (here (concat here name)))
        (ert-info (name)
          (dolist (ask '(file-exists-p file-directory-p file-regular-p
                         file-symlink-p file-readable-p file-writable-p
                         file-executable-p file-modes))
            (should (equal (list ask (funcall ask there))
                           (list ask (funcall ask here)))))
          (let ((a (file-attributes there)) (b (file-attributes here)))
            (dolist (n '(0 2 3 5 7 8))
              (should (equal (nth n a) (if (and (= n 5) a)
                                           (time-convert (nth n b) 'list)
                                         (nth n b)))))))))
    (should (equal (file-remote-p (rex-tests-name "x") 'localname)
                   (concat rex-tests-folder "/x")))
    (should (equal (file-truename (rex-tests-name "what/link"))
                   (rex-tests-name "what/file")))
    (should (equal (directory-files (rex-tests-name "what"))
                   (directory-files here)))
    (should (equal (file-name-completion "fi" (rex-tests-name "what/")) "file"))
    (should (equal (mapcar #'car (directory-files-and-attributes
                                  (rex-tests-name "what") nil "^[^.]"))
                   '("dangling" "dir" "file" "link")))))

(ert-deftest rex-files-are-changed-copied-renamed-and-deleted ()
  (rex-tests-put "ops/a" "a\n")
  (let ((name (lambda (name) (rex-tests-name (concat "ops/" name))))
        (here (concat rex-tests-folder "/")))
    (copy-file (funcall name "a") (funcall name "b"))
    (should (equal (rex-tests-bytes "ops/b") "a\n"))
    (should-error (copy-file (funcall name "a") (funcall name "b"))
                  :type 'file-already-exists)
    (rename-file (funcall name "b") (funcall name "c"))
    (should-not (file-exists-p (funcall name "b")))
    (copy-file (funcall name "c") (concat here "down"))
    (should (equal (rex-tests-bytes "down") "a\n"))
    (copy-file (concat here "down") (funcall name "up"))
    (should (equal (rex-tests-bytes "ops/up") "a\n"))
    (make-directory (funcall name "d/e") t)
    (rename-file (funcall name "c") (funcall name "d/e/"))
    (copy-directory (funcall name "d") (funcall name "f"))
    (should (equal (rex-tests-bytes "ops/f/e/c") "a\n"))
    (delete-directory (funcall name "d") t)
    (should-not (file-exists-p (concat here "ops/d")))
    (set-file-modes (funcall name "a") #o600)
    (should (equal (file-modes (concat here "ops/a")) #o600))
    (set-file-times (funcall name "a") '(0 1234567))
    (should (time-equal-p (file-attribute-modification-time
                           (file-attributes (concat here "ops/a")))
                          1234567))
    (make-symbolic-link "a" (funcall name "l"))
    (should (equal (file-symlink-p (concat here "ops/l")) "a"))
    (write-region "more\n" nil (funcall name "a") t)
    (should (equal (rex-tests-bytes "ops/a") "a\nmore\n"))
    (delete-file (funcall name "a"))
    (should-not (file-exists-p (funcall name "a")))
    (should-error (insert-file-contents (funcall name "a"))
                  :type 'file-missing)))

(ert-deftest rex-a-directory-of-10000-entries-is-one-request-and-shown-by-dired ()
  (make-directory (concat rex-tests-folder "/many") t)
  (call-process "sh" nil nil nil "-c" "cd \"$1\" && seq -f f%04g 0 9999 | xargs touch"
                "sh" (concat rex-tests-folder "/many"))
  (file-exists-p (rex-tests-name ""))   ; the way there is made once
  (should (equal (rex-tests-asks
                  (should (= (length (directory-files
                                      (rex-tests-name "many")))
                             10002)))
                 '("file/list")))
  (let* (buffer
         (asked (rex-tests-asks
                 (setq buffer (dired-noselect (rex-tests-name "many/"))))))
    (should (<= (length asked) 3))
    (with-current-buffer buffer
      (should (= (count-lines (point-min) (point-max)) 10004))
      (goto-char (point-min))
      (search-forward "f4711")
      (should (equal (dired-get-filename) (rex-tests-name "many/f4711")))
      (kill-buffer))))

(ert-deftest rex-while-10000-entries-come-timers-run ()
  (make-directory (concat rex-tests-folder "/crowd") t)
  (call-process "sh" nil nil nil "-c" "cd \"$1\" && seq -f f%04g 0 9999 | xargs touch"
                "sh" (concat rex-tests-folder "/crowd"))
  (file-exists-p (rex-tests-name ""))
  (let* ((ticks 0)
         (timer (run-at-time 0 0.001 (lambda () (cl-incf ticks)))))
    (kill-buffer (dired-noselect (rex-tests-name "crowd/")))
    (cancel-timer timer)
    (should (> ticks 0))))

(ert-deftest rex-while-10-megabytes-come-timers-run ()
  (rex-tests-put "large" (apply #'concat (make-list 655360 "0123456789abcde\n")))
  (let* ((ticks 0)
         (timer (run-at-time 0 0.001 (lambda () (cl-incf ticks)))))
    (rex-tests-visiting "large"
      (cancel-timer timer)
      (should (> ticks 0))
      (should (= (buffer-size) 10485760))
      (insert "x")
      (save-buffer)
      (should (= (length (rex-tests-bytes "large")) 10485761)))))

(ert-deftest rex-programs-run-to-their-end ()
  (rex-tests-put "in" "given\n")
  (let ((default-directory (rex-tests-name "")))
    (with-temp-buffer
      (setq default-directory (rex-tests-name ""))
      (should (equal (process-file "sh" nil t nil "-c" "pwd; echo e >&2; exit 3")
                     3))
      (should (equal (buffer-string) (concat rex-tests-folder "\ne\n")))
      (erase-buffer)
      (should (equal (process-file "cat" (rex-tests-name "in") t) 0))
      (should (equal (buffer-string) "given\n"))
      (erase-buffer)
      (let ((process-environment (cons "GREETING=hello" process-environment)))
        (process-file "sh" nil '(t nil) nil "-c" "echo $GREETING; echo e >&2"))
      (should (equal (buffer-string) "hello\n")))
    (should (equal (process-file "sh" nil nil nil "-c" "kill -9 $$") "signal KILL"))
    (should (equal (shell-command-to-string "echo $((6*7))") "42\n"))
    (should (executable-find "sh" t))))

(ert-deftest rex-processes-are-written-to-read-ended-and-have-their-codes ()
  (let* ((default-directory (rex-tests-name ""))
         (output "")
         (process (make-process
                   :name "test" :command '("sh" "-c" "cat; echo done; exit 7")
                   :connection-type 'pipe :noquery t :file-handler t
                   :filter (lambda (_ text) (setq output (concat output text))))))
    (process-send-string process "first\n")
    (rex-tests-until (lambda () (equal output "first\n")))
    (process-send-string process "second\n")
    (process-send-eof process)
    (rex-tests-until (lambda () (not (process-live-p process))))
    (should (equal (process-exit-status process) 7))
    (rex-tests-until (lambda () (equal output "first\nsecond\ndone\n"))))
  (let* ((default-directory (rex-tests-name ""))
         (output "")
         (process (make-process
                   :name "test" :noquery t :file-handler t :connection-type 'pty
                   :command '("sh" "-c" "trap 'echo stopped; exit 4' INT; tty; while :; do sleep 0.1; done")
                   :filter (lambda (_ text) (setq output (concat output text))))))
    (rex-tests-until (lambda () (string-match-p "/dev/pts/" output)))
    (interrupt-process process)
    (rex-tests-until (lambda () (not (process-live-p process))))
    (should (equal (process-exit-status process) 4))
    (rex-tests-until (lambda () (string-match-p "stopped" output)))))

(ert-deftest rex-comint-talks-to-a-shell-of-the-host ()
  (let* ((default-directory (rex-tests-name ""))
         (buffer (make-comint "rex-test" "sh" nil "-i"))
         (process (get-buffer-process buffer)))
    (set-process-query-on-exit-flag process nil)
    (with-current-buffer buffer
      (goto-char (point-max))
      (insert "echo $PWD $((6*7))")
      (comint-send-input)
      (rex-tests-until
       (lambda ()
         (string-match-p (concat (regexp-quote rex-tests-folder) "/? 42")
                         (buffer-string))))
      (goto-char (point-max))
      (insert "exit 5")
      (comint-send-input))
    (rex-tests-until (lambda () (not (process-live-p process))))
    (should (equal (process-exit-status process) 5))
    (kill-buffer buffer)))

(ert-deftest rex-a-process-that-is-deleted-ends-there-too ()
  (let* ((default-directory (rex-tests-name ""))
         (process (start-file-process "test" nil "sh" "-c"
                                      "echo $$ >pid; exec sleep 1000"))
         pid)
    (set-process-query-on-exit-flag process nil)
    (rex-tests-until
     (lambda ()
       (setq pid (and (file-exists-p (concat rex-tests-folder "/pid"))
                      (string-to-number (rex-tests-bytes "pid"))))
       (and pid (> pid 0))))
    (should (process-attributes pid))
    (delete-process process)
    (rex-tests-until (lambda () (member (alist-get 'state (process-attributes pid))
                                        '(nil "Z"))))))

(ert-deftest rex-twenty-commands-are-sent-before-the-first-is-answered ()
  ;; Each ends when all have begun: one after the other they would wait for ever.
  (make-directory (concat rex-tests-folder "/burst") t)
  (let ((ended 0))
    (dotimes (n 20)
      (rex-rpc-request-async
       rex-tests-host "process/run"
       (list :cwd (concat rex-tests-folder "/burst")
             :command (format "touch %d; while [ \"$(ls | wc -l)\" -lt 20 ]; do sleep 0.02; done" n))
       (lambda (_ result)
         (when (eql 0 (plist-get result :exitCode))
           (cl-incf ended)))))
    (rex-tests-until (lambda () (= ended 20)))))

(ert-deftest rex-run-finds-errors-in-files-of-the-host ()
  (rex-tests-put "src/a.c" "one\ntwo\n")
  (let ((compilation-always-kill t) finished)
    (with-current-buffer
        (rex-run rex-tests-host rex-tests-folder
                 "echo \"make: Entering directory '$PWD/src'\"; echo 'a.c:2:1: error: wrong'; exit 2")
      (add-hook 'compilation-finish-functions
                (lambda (_ how) (setq finished how)) nil t)
      (rex-tests-until (lambda () finished))
      (should (equal finished "exited abnormally with code 2\n"))
      (goto-char (point-min))
      (compilation-next-error 1)
      (save-window-excursion
        (compile-goto-error)
        (should (equal buffer-file-name (rex-tests-name "src/a.c")))
        (should (= (line-number-at-pos) 2))))))

(ert-deftest rex-version-control-sees-a-repository ()
  (skip-unless (executable-find "git"))
  (rex-tests-put "repo/file" "one\n")
  (let ((default-directory (concat rex-tests-folder "/repo/")))
    (dolist (words '(("init" "-q") ("add" "file")
                     ("-c" "user.name=t" "-c" "user.email=t@t" "commit" "-qm" "m")))
      (should (= 0 (apply #'call-process "git" nil nil nil words)))))
  (rex-tests-visiting "repo/file"
    (should (equal (vc-backend buffer-file-name) 'Git))
    (should (equal (vc-state buffer-file-name) 'up-to-date))
    (insert "more\n")
    (save-buffer)
    (should (equal (vc-state buffer-file-name 'Git) 'edited))))

(ert-deftest rex-a-quit-cancels-what-is-waited-for ()
  (let ((default-directory (rex-tests-name "")))
    (should (eq 'quit
                (condition-case nil
                    (progn
                      (run-at-time 0.5 nil (lambda () (signal 'quit nil)))
                      (let ((debug-on-quit nil))
                        (rex-rpc-request rex-tests-host "process/run"
                                         '(:command "sleep 1000"))))
                  (quit 'quit))))
    (should (equal (shell-command-to-string "echo again") "again\n"))))

(ert-deftest rex-y-a-dropped-link-is-told-and-the-next-use-reaches-the-host-again ()
  (skip-unless (> rex-tests-hops 0))
  (let* ((pid (plist-get (rex-rpc--machine rex-tests-host) :instance))
         (default-directory (rex-tests-name ""))
         (process (start-file-process "test" nil "sleep" "1000"))
         answer lost)
    (set-process-query-on-exit-flag process nil)
    (rex-rpc-request-async
     rex-tests-host "process/run"
     (list :command (format "touch %s/begun; sleep 1000" rex-tests-folder))
     (lambda (error _) (setq answer error)))
    ;; What has not begun would begin on the host that is dialled again.
    (rex-tests-until
     (lambda () (file-exists-p (concat rex-tests-folder "/begun"))))
    (add-hook 'rex-rpc-lost-functions (lambda (host &rest _) (setq lost host)))
    (signal-process (string-to-number pid) 'KILL)
    (rex-tests-until (lambda () answer))
    (should (equal (plist-get (plist-get answer :data) :type) "HostLost"))
    (rex-tests-until (lambda () (equal lost rex-tests-host)))
    (rex-tests-until (lambda () (not (process-live-p process))))
    (should (equal (process-exit-status process) 255))
    (should (equal (shell-command-to-string "echo again") "again\n"))))

(ert-deftest rex-z-a-program-that-ends-answers-all-and-the-next-use-starts-another ()
  (let (answer)
    (rex-rpc-request-async "" "process/run" '(:command "sleep 1000")
                           (lambda (error _) (setq answer error)))
    (signal-process (string-to-number (plist-get (rex-rpc--machine "") :instance))
                    'KILL)
    (rex-tests-until (lambda () answer))
    (let ((default-directory (rex-tests-name "")))
      (should (equal (shell-command-to-string "echo again") "again\n")))))

;;; rex-rpc-tests.el ends here
