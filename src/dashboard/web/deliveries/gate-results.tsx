import type { Api } from '../api-types.ts';
import { format } from '../format.ts';
import { Panel } from '../kit/page.tsx';
import { Icon } from '../kit/pill.tsx';
import type { Look } from '../looks.ts';
import { gateName, REASONS } from '../looks.ts';

type GateResult = Api['DeliveryDetail']['story'][number];

const OUTCOMES: Readonly<Record<GateResult['outcome'], readonly [Look['icon'], string]>> = {
  passed: ['check', 'good'],
  failed: ['cross', 'bad'],
  'not evaluated': ['skip', 'quiet'],
  'not configured': ['off', 'quiet'],
};

/** What each gate did, in pipeline order, and what was signed. */
export function GatePanels({ delivery: { story, signature } }: { delivery: Api['DeliveryDetail'] }) {
  return (
    <>
      <Panel title="Gate by gate" aside="in pipeline order">
        <GateResults results={story} />
      </Panel>
      {signature === null ? null : <SignaturePanel signature={signature} />}
    </>
  );
}

export function GateResults({ results }: { results: readonly GateResult[] }) {
  return (
    <ol class="story">
      {results.map((result) => (
        <GateEntry key={result.gate} result={result} />
      ))}
    </ol>
  );
}

function GateEntry({ result }: { result: GateResult }) {
  const { gate, outcome, reason, detail, facts, configured } = result;
  const [icon, tone] = OUTCOMES[outcome];
  const isQuiet = tone === 'quiet';
  return (
    <li class={tone}>
      <span class="story-icon">
        <Icon name={icon} />
      </span>
      <div>
        <p class="story-head">
          <b>{gateName(gate)}</b> <span class="muted">{outcome}</span>
        </p>
        {reason === null ? null : (
          <p class="story-reason">
            <b title={reason}>{format.words(reason)}</b>: {detail ?? REASONS[reason]}
          </p>
        )}
        {isQuiet && outcome === 'not configured' ? null : (
          <>
            <Pairs title="Found" pairs={facts} />
            <Pairs title="Configured" pairs={configured ?? {}} />
          </>
        )}
      </div>
    </li>
  );
}

function Pairs({ title, pairs }: { title?: string; pairs: Readonly<Record<string, unknown>> }) {
  const entries = Object.entries(pairs);
  if (entries.length === 0) return null;
  return (
    <>
      {title === undefined ? null : <h3>{title}</h3>}
      <dl class="pairs">
        {entries.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** What would help, by the bytes that were kept and the trigger in force. */
export function Hints({ hints }: { hints: readonly string[] }) {
  if (hints.length === 0) return null;
  return (
    <div class="notice warn hints">
      <Icon name="info" />
      <div>
        <b>How to fix it</b>
        <ul>
          {hints.map((hint) => (
            <li key={hint}>{hint}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function SignaturePanel({ signature }: { signature: Readonly<Record<string, unknown>> }) {
  const flat = Object.fromEntries(
    Object.entries(signature).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.entries(value).map(([part, member]) => [`${name}.${part}`, member] as const)
        : [[name, Array.isArray(value) ? value.join(', ') : value] as const],
    ),
  );
  return (
    <Panel title="Signed content" aside="by the current trigger">
      <Pairs pairs={flat} />
      <p class="muted fine">
        Each key is shown as a fingerprint that changes whenever the service starts. It tells two keys apart and reveals
        nothing else.
      </p>
    </Panel>
  );
}
