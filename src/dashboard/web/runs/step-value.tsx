import { bytes } from '../format.ts';
import { JsonView } from '../kit/json-view.tsx';

interface StepValueProps {
  readonly value: unknown;
  /** Whether the step, or the attempt, has values that were cut. */
  readonly isCut: boolean;
  readonly label: string;
  /** Where the whole value is. */
  readonly whole: string;
}

/** A value of a step; of one that is too large to show its beginning, and where the whole of it is. */
export function StepValue({ value, isCut, label, whole }: StepValueProps) {
  const cut = isCut ? cutOf(value) : undefined;
  if (cut === undefined) return <JsonView value={value} label={label} />;
  return (
    <div class="json">
      <section class="json-tree break" aria-label={label}>
        {`${cut.preview}…`}
      </section>
      <p>
        <a href={`/flows/api${whole}`} target="_blank" rel="noreferrer">
          {`Show all ${bytes(cut.length)}`}
        </a>
      </p>
    </div>
  );
}

function cutOf(value: unknown): { readonly length: number; readonly preview: string } | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('truncated' in value && 'length' in value && 'preview' in value)) return undefined;
  const { length, preview } = value;
  return typeof length === 'number' && typeof preview === 'string' ? { length, preview } : undefined;
}
