import type { Api } from '../../dashboard/web/api-types.ts';
import { Panel } from '../../dashboard/web/kit/page.tsx';
import { Icon } from '../../dashboard/web/kit/pill.tsx';
import type { Look } from '../../dashboard/web/looks.ts';
import { sentence } from '../../dashboard/web/spelling.ts';
import { words } from './page/words.ts';

type GateResult = Api['DeliveryDetail']['gateResults'][number];

const OUTCOMES: Readonly<Record<GateResult['outcome'], readonly [Look['icon'], string]>> = {
  passed: ['check', 'good'],
  failed: ['cross', 'bad'],
  'not evaluated': ['skip', 'quiet'],
  'not configured': ['off', 'quiet'],
};

/** The result of each gate, in pipeline order, and the signed content. */
export function GatePanels({ delivery: { gateResults, signature } }: { delivery: Api['DeliveryDetail'] }) {
  return (
    <>
      <Panel title="Gate by gate" aside="in pipeline order">
        <GateResults results={gateResults} />
      </Panel>
      {signature === null ? null : <SignaturePanel signature={signature} />}
    </>
  );
}

export function GateResults({ results }: { results: readonly GateResult[] }) {
  return (
    <ol class="gate-results">
      {results.map((result) => (
        <GateEntry key={result.gate} result={result} />
      ))}
    </ol>
  );
}

function GateEntry({ result }: { result: GateResult }) {
  const { gate, outcome, reason, detail, facts, configured } = result;
  // A filter does not fail a delivery, so it has no reason.
  const isFilter = outcome === 'failed' && reason === null;
  const [icon, tone] = OUTCOMES[isFilter ? 'not evaluated' : outcome];
  const isQuiet = tone === 'quiet';
  return (
    <li class={tone}>
      <span class="gate-result-icon">
        <Icon name={icon} />
      </span>
      <div>
        <p class="gate-result-head">
          <b>{words.gate(gate)}</b> <span class="muted">{isFilter ? 'no run' : words.outcome(outcome)}</span>
        </p>
        {reason === null && detail !== null ? (
          <p class="muted">{gate === 'searchKeys' ? `No value of ${detail}` : sentence(detail)}</p>
        ) : null}
        {reason === null ? null : (
          <p class="gate-result-reason">
            <b title={reason}>{words.reason(reason)}</b>: {sentence(detail ?? words.reasonMeaning(reason))}
          </p>
        )}
        {isQuiet && outcome === 'not configured' ? null : (
          <>
            <Rows title="Found" rows={words.factsOf(facts)} />
            <Rows title="Configured now" rows={words.settingsOf(configured ?? {})} />
          </>
        )}
      </div>
    </li>
  );
}

function Rows({ title, rows }: { title?: string; rows: ReturnType<typeof words.factsOf> }) {
  if (rows.length === 0) return null;
  return (
    <>
      {title === undefined ? null : <h3>{title}</h3>}
      <dl class="pairs worded">
        {rows.map(({ name, label, text }) => (
          <div key={name}>
            <dt title={name}>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** Hints from the stored bytes and the trigger in force. */
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
  return (
    <Panel title="Signature and keys" aside="by the current trigger">
      <Rows rows={words.signatureOf(signature)} />
      <p class="muted fine">
        For each key you see the first 8 digits of its SHA-256. To compare it with the key at the publisher, run{' '}
        <code>printf %s "$KEY" | sha256sum</code>.
      </p>
    </Panel>
  );
}
