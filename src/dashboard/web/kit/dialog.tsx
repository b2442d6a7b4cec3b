import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { createState, useShared } from '../state.ts';
import { Icon } from './icon.tsx';

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  readonly isWide?: boolean;
}

/** The browser's own modal dialog: it keeps the focus, gives it back, and closes on Escape. */
export function Dialog({ title, onClose, children, isWide = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={element} class={isWide ? 'wide' : ''} aria-labelledby={titleId} onCancel={onClose} onClose={onClose}>
      <header>
        <h2 id={titleId}>{title}</h2>
        <button type="button" class="icon-button" onClick={onClose}>
          <Icon name="cross" />
          <span class="unseen">Close</span>
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface Question {
  readonly title: string;
  readonly body: ComponentChildren;
  /** What the button says: what will be done, not "OK". */
  readonly action: string;
  readonly isDangerous?: boolean;
}

const asked = createState<{ question: Question; answer: (isYes: boolean) => void } | undefined>(undefined);

/** Asks before something is done that cannot be undone, or that many would notice. */
export function confirm(question: Question): Promise<boolean> {
  asked.get()?.answer(false);
  return new Promise((resolve) => {
    const answer = (isYes: boolean) => {
      asked.set(undefined);
      resolve(isYes);
    };
    asked.set({ question, answer });
  });
}

export function ConfirmDialog() {
  const current = useShared(asked);
  if (current === undefined) return null;
  const { question, answer } = current;
  return (
    <Dialog title={question.title} onClose={() => answer(false)}>
      <div class="dialog-body">{question.body}</div>
      <footer class="dialog-foot">
        <button type="button" class="button" onClick={() => answer(false)}>
          Cancel
        </button>
        <button
          type="button"
          class={`button ${question.isDangerous ? 'danger' : 'primary'}`}
          onClick={() => answer(true)}
        >
          {question.action}
        </button>
      </footer>
    </Dialog>
  );
}
