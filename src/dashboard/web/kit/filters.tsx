import { useEffect, useRef, useState } from 'preact/hooks';
import { useQuery } from '../router.ts';
import { Icon } from './icon.tsx';

const TYPING_MS = 250;

interface Choice {
  readonly value: string;
  readonly text: string;
}

/** A choice that the address keeps; the empty value is the first. Any change leads back to the first page. */
export function SelectFilter({ name, label, choices }: { name: string; label: string; choices: readonly Choice[] }) {
  const [query, changeQuery] = useQuery();
  const value = query.get(name) ?? '';
  const isKnown = choices.some((choice) => choice.value === value);
  return (
    <label class="filter">
      <span class="unseen">{label}</span>
      <select
        value={value}
        class={value === '' ? '' : 'set'}
        onChange={(event) => changeQuery({ [name]: event.currentTarget.value, skip: undefined })}
      >
        {isKnown ? null : <option value={value}>{value}</option>}
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value}>
            {choice.text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A text that the address keeps, a moment after the last key. */
export function SearchFilter({ label, name = 'search' }: { label: string; name?: string }) {
  const [query, changeQuery] = useQuery();
  const inAddress = query.get(name) ?? '';
  const [text, setText] = useState(inAddress);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(inAddress), [inAddress]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (next: string) => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => changeQuery({ [name]: next.trim(), skip: undefined }), TYPING_MS);
  };
  return (
    <label class="filter search">
      <span class="unseen">{label}</span>
      <Icon name="search" />
      <input
        type="search"
        data-search
        placeholder={label}
        maxLength={200}
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
      />
      <kbd>/</kbd>
    </label>
  );
}

interface SegmentsProps {
  readonly label: string;
  readonly choices: readonly Choice[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A few choices side by side, one of them taken. */
export function Segments({ label, choices, value, onChange }: SegmentsProps) {
  return (
    <fieldset class="segments">
      <legend class="unseen">{label}</legend>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          onClick={() => onChange(choice.value)}
        >
          {choice.text}
        </button>
      ))}
    </fieldset>
  );
}
