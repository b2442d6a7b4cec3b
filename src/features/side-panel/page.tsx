import { useEffect, useRef } from 'preact/hooks';
import { matchRoute, splitAddress, withChanges } from '../../dashboard/web/address.ts';
import { Icon } from '../../dashboard/web/kit/pill.tsx';
import { allRoutes, type PagePart } from '../../dashboard/web/part.ts';
import { Beside, linkOf, navigate, useQuery } from '../../dashboard/web/router.ts';

/** Pages that people look through one after another; other rows lead to pages for work. */
const OPENS_BESIDE = /^\/flows\/(deliveries|runs)\/[0-9a-f-]{36}$/i;
/** State of a history entry made by a row: Back leads to its list. */
const OPENED_BY_ROW = 'opened by a row';
const NARROW = '(max-width: 760px)';

/** Called once, and before the router, which would open the page of the row. */
function listenForRows(): void {
  document.addEventListener(
    'click',
    (event) => {
      const row = event.target instanceof Element ? event.target.closest('a[data-row]') : null;
      const open = row === null || row.closest('dialog') !== null ? undefined : linkOf(event);
      if (open === undefined || !OPENS_BESIDE.test(open)) return;
      event.preventDefault();
      const isOpen = new URLSearchParams(location.search).has('open');
      navigate(`${location.pathname}${withChanges(location.search, { open })}`, { replace: isOpen });
      if (!isOpen) history.replaceState(OPENED_BY_ROW, '');
    },
    true,
  );
}

function close(): void {
  if (history.state === OPENED_BY_ROW) history.back();
  else navigate(`${location.pathname}${withChanges(location.search, { open: undefined })}`, { replace: true });
}

function SidePanel() {
  const [query] = useQuery();
  const { path } = splitAddress(query.get('open') ?? '');
  return OPENS_BESIDE.test(path) ? <Opened key={path} path={path} /> : null;
}

function Opened({ path }: { path: string }) {
  const panel = useRef<HTMLElement>(null);
  const match = matchRoute(allRoutes(), path);
  useEffect(() => {
    panel.current?.focus({ preventScroll: true });
    const covered = matchMedia(NARROW).matches ? document.querySelectorAll<HTMLElement>('main, .top-bar') : [];
    for (const element of covered) element.inert = true;
    const onKey = ({ key, target }: KeyboardEvent) => {
      const isElsewhere = target instanceof Element && target.closest('dialog, input, textarea, select') !== null;
      if (key === 'Escape' && !isElsewhere && document.querySelector('dialog[open]') === null) close();
    };
    document.addEventListener('keydown', onKey);
    return () => {
      document.removeEventListener('keydown', onKey);
      for (const element of covered) element.inert = false;
      const isAnotherOpen = new URLSearchParams(location.search).has('open');
      const row = document.querySelector<HTMLElement>(`[data-row][href="${path}"]`);
      if (!isAnotherOpen) row?.focus({ preventScroll: true });
    };
  }, []);
  if (match === undefined) return null;
  return (
    <section class="side-panel" role="dialog" aria-label={match.route.title} tabIndex={-1} ref={panel}>
      <div class="side-panel-tools">
        <a class="icon-button" href={path} title="Open as a page">
          <Icon name="link" />
          <span class="unseen">Open as a page</span>
        </a>
        <button type="button" class="icon-button" title="Close (Esc)" onClick={close}>
          <Icon name="cross" />
          <span class="unseen">Close</span>
        </button>
      </div>
      <Beside.Provider value={true}>
        <match.route.page params={match.params} />
      </Beside.Provider>
    </section>
  );
}

listenForRows();

export const sidePanelPage: PagePart = { name: 'side-panel', at: { everywhere: SidePanel } };
