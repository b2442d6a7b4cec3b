import type { Flow } from '../api-types.ts';
import { CodeLine } from '../kit/copy.tsx';
import { Empty } from '../kit/page.tsx';

/** What to paste into a terminal first. */
export function FirstDelivery({ flows }: { flows: readonly Flow[] }) {
  const [first] = flows.flatMap(({ triggers }) => triggers.flatMap((trigger) => trigger.sendCommand ?? []));
  if (first === undefined) {
    return (
      <Empty icon="flows" title="No flow has a webhook that can be called">
        <p>Put a manifest with a webhook trigger and a slug into the manifests folder and start the service again.</p>
      </Empty>
    );
  }
  return (
    <div class="steps">
      <p>
        Nothing has come in yet. This signs a sample as its publisher would and sends it here; run it where the service
        was started:
      </p>
      <CodeLine text={first} label="the command" />
      <p class="muted">
        The delivery and its run show up on this page by themselves. <a href="/flows/flows">See all flows</a>
      </p>
    </div>
  );
}
