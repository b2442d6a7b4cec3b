import { useEffect, useRef, useState } from 'preact/hooks';
import { withQuery } from '../../dashboard/web/address.ts';
import { ApiError, ask } from '../../dashboard/web/api.ts';
import type { Api } from '../../dashboard/web/api-types.ts';
import { jsonProblem } from '../../dashboard/web/json.ts';
import { ReasonField, toast, type Why, whyOf } from '../../dashboard/web/kit/overlays.tsx';
import { Failure, Loaded, Page, Skeleton } from '../../dashboard/web/kit/page.tsx';
import { Icon } from '../../dashboard/web/kit/pill.tsx';
import { type PagePart, shownAt } from '../../dashboard/web/part.ts';
import { useResource } from '../../dashboard/web/resource.ts';
import { navigate, useQuery } from '../../dashboard/web/router.ts';
import { may } from '../../dashboard/web/scopes.ts';
import { type Allowed, allowedWords, DeployPlan, NOTHING_ALLOWED } from '../revisions/deploy-plan.tsx';
import type { ManifestEditor, PlacedIssue } from './manifest-editor.ts';
import { newGuid } from './page/guid.ts';
import { manifestFor, type Publisher, publishersIn } from './page/publishers.ts';
import type { Schema } from './schema-choices.ts';
import { strictJson } from './strict-json.ts';

/** Deploys a manifest: a changed one of a flow, or a new one. */
function DeployPage({ params }: { params: { readonly id?: string } }) {
  const { id } = params;
  const flow = useResource<Api['FlowDetail']>(id === undefined ? null : `/flows/${encodeURIComponent(id)}`);
  const schema = useResource<Schema>('/manifest-schema');
  const [query] = useQuery();
  const publisher = id === undefined ? query.get('publisher') : null;
  const schemes = useResource<readonly Api['Scheme'][]>(publisher === null ? null : '/schemes');
  const trail = [
    ['Flows', '/flows/flows'] as const,
    ...(id === undefined ? [] : [[flow.data?.name ?? 'Flow', `/flows/flows/${id}`] as const]),
  ];
  const isThere = ({ data, error }: { data: unknown; error: unknown }) => data !== undefined || error !== undefined;
  const isReady = isThere(schema) && (publisher === null || isThere(schemes));
  const chosen = publishersIn(schemes.data ?? []).find(({ name }) => name === publisher);
  return (
    <Page title={id === undefined ? 'Deploy a manifest' : 'Edit and deploy'} trail={trail}>
      {id === undefined && isReady ? <Deploying inForce={undefined} chosen={chosen} schema={schema.data} /> : null}
      {id === undefined || !isReady ? null : (
        <Loaded of={flow}>{(detail) => <Deploying inForce={detail} schema={schema.data} />}</Loaded>
      )}
      {isReady ? null : <Skeleton lines={12} />}
    </Page>
  );
}

interface DeployingProps {
  readonly inForce: Api['FlowDetail'] | undefined;
  /** The publisher of a new flow, if one was chosen. */
  readonly chosen?: Publisher | undefined;
  readonly schema: Schema | undefined;
}

function Deploying({ inForce, chosen, schema }: DeployingProps) {
  // As it was when the page was opened: deploys of others meanwhile must not change the text under the cursor.
  const [original] = useState(() => (inForce === undefined ? null : JSON.stringify(inForce.manifest, null, 2)));
  const [text, setText] = useState(() => original ?? newManifest(chosen));
  const [editor, setEditor] = useState<ManifestEditor>();
  const [isCompared, setCompared] = useState(false);
  const [allowed, setAllowed] = useState<Allowed>(NOTHING_ALLOWED);
  const [isBusy, setBusy] = useState(false);
  const [refused, setRefused] = useState<unknown>();
  const [reason, setReason] = useState('');
  const checked = useCheck(text, allowed);
  const { plan, issues } = checked;
  useEffect(() => editor?.setIssues(issues), [editor, issues]);
  useEffect(() => editor?.compareWith(isCompared ? original : null), [editor, isCompared, original]);
  const load = async (file: File | undefined) => {
    if (file !== undefined) editor?.setText(await file.text());
  };
  const deploy = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setRefused(undefined);
    try {
      const done = await send({ text, allowed, isPlan: false, ...whyOf(reason) });
      if (done.action === 'refused') throw new Error(done.refusal ?? 'The deploy was refused');
      toast('good', `${done.name} is deployed as revision ${done.revision}.`);
      navigate(`/flows/flows/${done.flowId}`);
    } catch (error) {
      setRefused(error);
      setBusy(false);
    }
  };
  const isReady = !checked.isChecking && plan !== undefined && plan.action !== 'refused' && plan.action !== 'unchanged';
  return (
    <form class="deploy" onSubmit={(event) => void deploy(event)}>
      <section class="deploy-editor" aria-label="Manifest">
        <div class="deploy-tools">
          <label class="button">
            <Icon name="file" />
            Open a file…
            <input
              type="file"
              class="unseen"
              accept=".json,application/json"
              onChange={(event) => void load(event.currentTarget.files?.[0])}
            />
          </label>
          <span class="muted minor">or drop one on the editor; Ctrl+Space completes</span>
          {inForce === undefined ? null : (
            <label class="check">
              <input
                type="checkbox"
                checked={isCompared}
                onChange={(event) => setCompared(event.currentTarget.checked)}
              />
              {`Show changes to revision ${inForce.revision}`}
            </label>
          )}
        </div>
        {text.includes('"***"') ? (
          <p class="muted">
            Secrets that the manifest has written out are shown as ***. Write them again, or better name them with
            env:NAME or file:PATH.
          </p>
        ) : null}
        <Editor text={text} schema={schema} onReady={setEditor} onChange={setText} onDrop={load} />
      </section>
      <section class="panel deploy-check" aria-label="Check">
        <header>
          <h2>What a deploy would do</h2>
        </header>
        <div class="panel-body stack">
          {refused === undefined ? null : <Failure error={refused} />}
          {checked.error === undefined || issues.length > 0 ? null : <Failure error={checked.error} />}
          <Issues issues={issues} onOpen={(path) => editor?.goTo(path)} />
          {plan === undefined ? null : (
            <DeployPlan plan={plan} verb="Deploy" allowed={allowed} onAllow={setAllowed} mayRollBack />
          )}
          {inForce === undefined
            ? null
            : shownAt('deploy', {
                text,
                isReady: !checked.isChecking && plan !== undefined && plan.action !== 'unchanged',
              })}
          {plan === undefined && checked.error === undefined ? <Skeleton lines={3} /> : null}
          <ReasonField text={reason} onChange={setReason} />
        </div>
        <footer class="dialog-foot">
          <span class="muted" role="status">
            {checked.isChecking ? 'Checking…' : ''}
          </span>
          <button type="submit" class="button primary" disabled={!isReady || isBusy}>
            {plan?.action === 'unchanged' ? 'Nothing to deploy' : 'Deploy'}
          </button>
        </footer>
      </section>
    </form>
  );
}

interface EditorProps {
  readonly text: string;
  readonly schema: Schema | undefined;
  readonly onReady: (editor: ManifestEditor) => void;
  readonly onChange: (text: string) => void;
  readonly onDrop: (file: File | undefined) => Promise<void>;
}

function Editor({ text, schema, onReady, onChange, onDrop }: EditorProps) {
  const place = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    let editor: ManifestEditor | undefined;
    let isCurrent = true;
    const make = async () => {
      const { createManifestEditor } = await import('./manifest-editor.ts');
      if (!isCurrent || place.current === null) return;
      editor = createManifestEditor({ parent: place.current, text, schema, onChange });
      onReady(editor);
    };
    make().catch(setError);
    return () => {
      isCurrent = false;
      editor?.destroy();
    };
  }, []);
  const drop = (event: DragEvent) => {
    const [file] = event.dataTransfer?.files ?? [];
    if (file === undefined) return;
    event.preventDefault();
    void onDrop(file);
  };
  return (
    <>
      {error === undefined ? null : <Failure error={error} />}
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the button next to it opens a file too. */}
      <div class="editor" ref={place} onDragOver={(event) => event.preventDefault()} onDropCapture={drop} />
    </>
  );
}

function Issues({ issues, onOpen }: { issues: readonly PlacedIssue[]; onOpen: (path: string) => void }) {
  if (issues.length === 0) return null;
  return (
    <ul class="issues">
      {issues.map(({ path, severity, message }) => (
        <li key={`${path} ${message}`} class={severity}>
          <Icon name={severity === 'error' ? 'cross' : 'warn'} />
          <span class="break">
            {path === '' ? null : (
              <button type="button" class="link mono" onClick={() => onOpen(path)}>
                {path}
              </button>
            )}{' '}
            {message}
          </span>
        </li>
      ))}
    </ul>
  );
}

interface Check {
  readonly plan: Api['Deployed'] | undefined;
  readonly issues: readonly PlacedIssue[];
  readonly error: unknown;
  readonly isChecking: boolean;
}

const TYPING_MS = 500;
const NO_ISSUES: readonly PlacedIssue[] = [];

/** Requests a dry run shortly after the last key press. */
function useCheck(text: string, allowed: Allowed): Check {
  const [check, setCheck] = useState<Check>({ plan: undefined, issues: NO_ISSUES, error: undefined, isChecking: true });
  useEffect(() => {
    const controller = new AbortController();
    setCheck((last) => ({ ...last, isChecking: true }));
    const run = async () => {
      try {
        const plan = await send({ text, allowed, isPlan: true, signal: controller.signal });
        setCheck({ plan, issues: NO_ISSUES, error: undefined, isChecking: false });
      } catch (error) {
        if (controller.signal.aborted) return;
        const issues = error instanceof ApiError ? issuesOf(error.answer) : NO_ISSUES;
        setCheck({ plan: undefined, issues, error, isChecking: false });
      }
    };
    const timer = setTimeout(() => void run(), TYPING_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text, allowed]);
  return check;
}

/** The issues in the answer to an invalid manifest. */
function issuesOf(answer: unknown): readonly PlacedIssue[] {
  const { issues } = Object(answer) as { issues?: readonly PlacedIssue[] };
  return Array.isArray(issues) ? issues : NO_ISSUES;
}

interface DeployRequest extends Why {
  readonly text: string;
  readonly allowed: Allowed;
  readonly isPlan: boolean;
  readonly signal?: AbortSignal;
}

async function send({ text, allowed, isPlan, reason, signal }: DeployRequest): Promise<Api['Deployed']> {
  const strict = strictJson(text);
  const problem = strict.trim() === '' ? 'The manifest is empty.' : jsonProblem(strict);
  if (problem !== null) throw new Error(problem);
  const { id } = Object(JSON.parse(strict)) as { id?: unknown };
  if (typeof id !== 'string') throw new Error('The manifest has no id: add "id" with a GUID.');
  const path = withQuery(`/flows/${encodeURIComponent(id)}`, {
    allow: allowedWords(allowed),
    dryRun: isPlan,
    reason,
  });
  return ask<Api['Deployed']>(path, {
    method: 'PUT',
    rawBody: text,
    headers: { 'content-type': 'application/json' },
    answersRefusal: true,
    ...(signal === undefined ? {} : { signal }),
  });
}

function newManifest(chosen: Publisher | undefined): string {
  const id = newGuid();
  const manifest = chosen === undefined ? sampleFlow(id) : manifestFor(chosen, id);
  return JSON.stringify(manifest, null, 2);
}

const sampleFlow = (id: string) => ({
  id,
  name: 'My flow',
  version: '1.0.0',
  triggers: { byHand: { type: 'manual' } },
  steps: { greet: { type: 'LogMessage', inputs: { message: 'hello' } } },
});

function NewLink() {
  return (
    <a class="button" href="/flows/flows/new">
      <Icon name="upload" />
      Deploy a manifest…
    </a>
  );
}

function EditLink({ flow }: { flow: Api['Flow'] }) {
  return (
    <a class="button" href={`/flows/flows/${flow.id}/deploy`}>
      <Icon name="upload" />
      Edit and deploy…
    </a>
  );
}

export const deployPagePage: PagePart = {
  name: 'deploy-page',
  routes: [
    { path: '/flows/flows/new', page: DeployPage, title: 'Deploy a manifest' },
    { path: '/flows/flows/:id/deploy', page: DeployPage, title: 'Edit and deploy' },
  ],
  at: { flowsTools: may('deploy') ? NewLink : undefined, flowTools: may('deploy') ? EditLink : undefined },
};
