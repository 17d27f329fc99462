CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));

INSERT INTO alembic_version VALUES ('0058');

CREATE TABLE accounts (
	id BIGSERIAL NOT NULL, 
	kind TEXT NOT NULL, 
	login TEXT NOT NULL, 
	name TEXT, 
	email TEXT, 
	avatar TEXT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	login_key TEXT NOT NULL, 
	disabled_at BIGINT, 
	CONSTRAINT pk_accounts PRIMARY KEY (id), 
	CONSTRAINT uq_accounts_login_key UNIQUE (login_key)
);

CREATE INDEX ix_accounts_email ON accounts (lower(email));

CREATE INDEX ix_accounts_deleting ON accounts (id) WHERE kind = 'deleting';

CREATE TABLE audit_log (
	id BIGSERIAL NOT NULL, 
	at BIGINT NOT NULL, 
	account_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	actor_id BIGINT, 
	token_id BIGINT, 
	app_id BIGINT, 
	action TEXT NOT NULL, 
	status INTEGER, 
	request_id TEXT, 
	times INTEGER DEFAULT '1' NOT NULL, 
	target TEXT NOT NULL, 
	address TEXT, 
	detail TEXT NOT NULL, 
	CONSTRAINT pk_audit_log PRIMARY KEY (id)
);

ALTER TABLE audit_log SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX ix_audit_log_account_id ON audit_log (account_id, id);

CREATE INDEX ix_audit_log_action ON audit_log (account_id, action, id);

CREATE INDEX ix_audit_log_actor ON audit_log (account_id, actor_id, action, id);

CREATE INDEX ix_audit_log_repository ON audit_log (account_id, repository_id, action, id);

CREATE INDEX ix_audit_log_repository_actor ON audit_log (account_id, repository_id, actor_id, action, id);

CREATE TABLE deliveries (
	id BIGSERIAL NOT NULL, 
	dispatch_id BIGINT NOT NULL, 
	hook_id INTEGER NOT NULL, 
	event_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	installation_id BIGINT, 
	guid TEXT NOT NULL, 
	event TEXT NOT NULL, 
	action TEXT, 
	delivered_at BIGINT NOT NULL, 
	throttled_at BIGINT, 
	duration_ms INTEGER NOT NULL, 
	redelivery BOOLEAN NOT NULL, 
	status TEXT NOT NULL, 
	status_code INTEGER NOT NULL, 
	url TEXT NOT NULL, 
	request_headers BYTEA NOT NULL, 
	response_headers BYTEA NOT NULL, 
	response_body BYTEA NOT NULL, 
	recorded_at BIGINT, 
	CONSTRAINT pk_deliveries PRIMARY KEY (id)
);

ALTER TABLE deliveries SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX ix_deliveries_hook_id ON deliveries (hook_id, id);

CREATE INDEX ix_deliveries_guid ON deliveries (guid);

CREATE INDEX ix_deliveries_delivered_at ON deliveries (delivered_at);

CREATE INDEX ix_deliveries_event ON deliveries (hook_id, event, ((status_code / 100) = 2), redelivery, id);

CREATE INDEX ix_deliveries_action ON deliveries (hook_id, action, event, ((status_code / 100) = 2), redelivery, id) WHERE action IS NOT NULL;

CREATE INDEX ix_deliveries_recorded_at ON deliveries (hook_id, id) WHERE recorded_at IS NOT NULL;

CREATE TABLE dispatches (
	id BIGSERIAL NOT NULL, 
	event_id BIGINT NOT NULL, 
	hook_id INTEGER NOT NULL, 
	guid TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	retries INTEGER NOT NULL, 
	wanted INTEGER NOT NULL, 
	next_attempt_at BIGINT, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_dispatches PRIMARY KEY (id), 
	CONSTRAINT uq_dispatches_event_id_hook_id UNIQUE (event_id, hook_id)
);

ALTER TABLE dispatches SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX ix_dispatches_due ON dispatches (hook_id, next_attempt_at, id) WHERE next_attempt_at IS NOT NULL;

CREATE TABLE event_keys (
	scope TEXT NOT NULL, 
	key TEXT NOT NULL, 
	digest BYTEA NOT NULL, 
	event_id BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_event_keys PRIMARY KEY (scope, key)
);

CREATE INDEX ix_event_keys_created_at ON event_keys (created_at);

CREATE TABLE events (
	id BIGSERIAL NOT NULL, 
	account_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	name TEXT NOT NULL, 
	action TEXT, 
	payload BYTEA NOT NULL, 
	size BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	actor_id BIGINT, 
	installation_id BIGINT, 
	listed BOOLEAN DEFAULT true NOT NULL, 
	published BOOLEAN DEFAULT false NOT NULL, 
	traceparent TEXT, 
	CONSTRAINT pk_events PRIMARY KEY (id)
);

ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX ix_events_created_at ON events (created_at);

CREATE INDEX ix_events_name ON events (repository_id, name, listed, id);

CREATE INDEX ix_events_activity ON events (repository_id, id) WHERE listed;

CREATE INDEX ix_events_account ON events (account_id, id) WHERE repository_id IS NULL;

CREATE INDEX ix_events_actor ON events (repository_id, actor_id, name, id) WHERE listed;

CREATE TABLE key_check (
	id INTEGER NOT NULL, 
	sealed BYTEA NOT NULL, 
	CONSTRAINT pk_key_check PRIMARY KEY (id)
);

CREATE TABLE probe (
	id INTEGER NOT NULL, 
	written_at BIGINT NOT NULL, 
	CONSTRAINT pk_probe PRIMARY KEY (id)
);

CREATE TABLE rate_windows (
	caller TEXT NOT NULL, 
	resets_at BIGINT NOT NULL, 
	used INTEGER NOT NULL, 
	granted INTEGER NOT NULL, 
	CONSTRAINT pk_rate_windows PRIMARY KEY (caller)
);

CREATE INDEX ix_rate_windows_resets_at ON rate_windows (resets_at);

CREATE TABLE sign_in_failures (
	key TEXT NOT NULL, 
	failures INTEGER NOT NULL, 
	since BIGINT NOT NULL, 
	blocked_until BIGINT NOT NULL, 
	CONSTRAINT pk_sign_in_failures PRIMARY KEY (key)
);

CREATE INDEX ix_sign_in_failures_since ON sign_in_failures (since);

CREATE TABLE timesheet_changes (
	id BIGSERIAL NOT NULL, 
	repository_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	task_id TEXT NOT NULL, 
	billable BOOLEAN NOT NULL, 
	invoiced BOOLEAN NOT NULL, 
	start_time BIGINT NOT NULL, 
	timesheets BIGINT NOT NULL, 
	duration_ms BIGINT NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	CONSTRAINT pk_timesheet_changes PRIMARY KEY (id)
);

ALTER TABLE timesheet_changes SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX ix_timesheet_changes_repository_id ON timesheet_changes (repository_id, start_time);

CREATE TABLE timesheet_sums (
	repository_id BIGINT NOT NULL, 
	grain SMALLINT NOT NULL, 
	period BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	task_id TEXT NOT NULL, 
	billable BOOLEAN NOT NULL, 
	invoiced BOOLEAN NOT NULL, 
	timesheets BIGINT NOT NULL, 
	duration_ms BIGINT NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	CONSTRAINT pk_timesheet_sums PRIMARY KEY (repository_id, grain, period, user_id, task_id, billable, invoiced)
);

ALTER TABLE timesheet_sums SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE INDEX ix_timesheet_sums_empty ON timesheet_sums (repository_id) WHERE timesheets = 0;

CREATE TABLE worker_generation (
	id INTEGER NOT NULL, 
	generation BIGINT NOT NULL, 
	CONSTRAINT pk_worker_generation PRIMARY KEY (id)
);

CREATE TABLE workers (
	owner TEXT NOT NULL, 
	seen_until BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	acknowledged BIGINT NOT NULL, 
	finishing TEXT NOT NULL, 
	leaving BOOLEAN NOT NULL, 
	CONSTRAINT pk_workers PRIMARY KEY (owner)
);

CREATE TABLE account_billing (
	account_id BIGINT NOT NULL, 
	legal_name TEXT, 
	address TEXT, 
	vat_id TEXT, 
	tax_number TEXT, 
	email TEXT, 
	country TEXT, 
	iban TEXT, 
	bic TEXT, 
	currency TEXT, 
	tax_millionths BIGINT, 
	tax_category TEXT, 
	payment_days BIGINT, 
	payment_terms TEXT, 
	number_format TEXT, 
	timezone TEXT, 
	language TEXT, 
	hourly_rate_minor BIGINT, 
	billable BOOLEAN, 
	round_minutes BIGINT, 
	round_mode TEXT, 
	logo_id TEXT, 
	CONSTRAINT pk_account_billing PRIMARY KEY (account_id), 
	CONSTRAINT fk_account_billing_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE administrators (
	user_id BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_administrators PRIMARY KEY (user_id), 
	CONSTRAINT fk_administrators_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE apps (
	id BIGSERIAL NOT NULL, 
	kind TEXT NOT NULL, 
	account_id BIGINT NOT NULL, 
	client_id TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT, 
	homepage_url TEXT, 
	callback_urls TEXT NOT NULL, 
	device_flow BOOLEAN NOT NULL, 
	public BOOLEAN NOT NULL, 
	permissions TEXT NOT NULL, 
	bot_id BIGINT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_apps PRIMARY KEY (id), 
	CONSTRAINT fk_apps_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT uq_apps_client_id UNIQUE (client_id), 
	CONSTRAINT uq_apps_slug UNIQUE (slug), 
	CONSTRAINT fk_apps_bot_id FOREIGN KEY(bot_id) REFERENCES accounts (id)
);

CREATE INDEX ix_apps_account_id ON apps (account_id);

CREATE TABLE billing_logos (
	account_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	content_type TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	sha256 TEXT NOT NULL, 
	blob TEXT NOT NULL, 
	is_issued BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_billing_logos PRIMARY KEY (id), 
	CONSTRAINT fk_billing_logos_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_billing_logos_account_id ON billing_logos (account_id);

CREATE INDEX ix_billing_logos_blob ON billing_logos (blob);

CREATE TABLE credit_note_numbers (
	account_id BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	CONSTRAINT pk_credit_note_numbers PRIMARY KEY (account_id), 
	CONSTRAINT fk_credit_note_numbers_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE identities (
	issuer TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	user_id BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_identities PRIMARY KEY (issuer, subject), 
	CONSTRAINT fk_identities_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_identities_user_id ON identities (user_id);

CREATE TABLE invoice_numbers (
	account_id BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	CONSTRAINT pk_invoice_numbers PRIMARY KEY (account_id), 
	CONSTRAINT fk_invoice_numbers_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE invoice_year_numbers (
	account_id BIGINT NOT NULL, 
	year BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	CONSTRAINT pk_invoice_year_numbers PRIMARY KEY (account_id, year), 
	CONSTRAINT fk_invoice_year_numbers_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE mail_recipients (
	user_id BIGINT NOT NULL, 
	language TEXT, 
	confirmed TEXT, 
	bounced TEXT, 
	bounced_at BIGINT, 
	bounce TEXT, 
	CONSTRAINT pk_mail_recipients PRIMARY KEY (user_id), 
	CONSTRAINT fk_mail_recipients_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_mail_recipients_confirmed ON mail_recipients (lower(confirmed)) WHERE confirmed IS NOT NULL;

CREATE TABLE member_rates (
	account_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	hourly_rate_minor BIGINT NOT NULL, 
	CONSTRAINT pk_member_rates PRIMARY KEY (account_id, user_id), 
	CONSTRAINT fk_member_rates_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_member_rates_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_member_rates_user ON member_rates (user_id);

CREATE TABLE memberships (
	organization_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	role TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_memberships PRIMARY KEY (organization_id, user_id), 
	CONSTRAINT fk_memberships_organization_id FOREIGN KEY(organization_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_memberships_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_memberships_user_id ON memberships (user_id);

CREATE INDEX ix_memberships_role ON memberships (organization_id, role, user_id);

CREATE TABLE notification_settings (
	user_id BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	inbox BOOLEAN NOT NULL, 
	email BOOLEAN, 
	CONSTRAINT pk_notification_settings PRIMARY KEY (user_id, kind), 
	CONSTRAINT fk_notification_settings_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE passwords (
	user_id BIGINT NOT NULL, 
	hash TEXT NOT NULL, 
	changed_at BIGINT NOT NULL, 
	email TEXT, 
	CONSTRAINT pk_passwords PRIMARY KEY (user_id), 
	CONSTRAINT fk_passwords_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE TABLE projects (
	repository_id BIGSERIAL NOT NULL, 
	id TEXT NOT NULL, 
	account_id BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	name_key TEXT NOT NULL, 
	title TEXT NOT NULL, 
	avatar TEXT, 
	private BOOLEAN NOT NULL, 
	archive BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	currency TEXT, 
	label_colors TEXT, 
	deleted_at BIGINT, 
	CONSTRAINT pk_projects PRIMARY KEY (repository_id), 
	CONSTRAINT uq_projects_account_id_name_key UNIQUE (account_id, name_key), 
	CONSTRAINT uq_projects_id UNIQUE (id), 
	CONSTRAINT fk_projects_account_id FOREIGN KEY(account_id) REFERENCES accounts (id)
);

CREATE INDEX ix_projects_name ON projects (account_id, lower(name));

CREATE INDEX ix_projects_there ON projects (account_id, private, repository_id) WHERE deleted_at IS NULL;

CREATE INDEX ix_projects_trash ON projects (account_id, deleted_at, id) WHERE deleted_at IS NOT NULL;

CREATE TABLE services (
	account_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	title TEXT NOT NULL, 
	description TEXT, 
	active BOOLEAN NOT NULL, 
	addon BOOLEAN NOT NULL, 
	position BIGINT NOT NULL, 
	disable_pause BOOLEAN NOT NULL, 
	disable_quantity BOOLEAN NOT NULL, 
	limit_pausing BIGINT, 
	minimum_months BIGINT, 
	cancel_at_period_end BOOLEAN NOT NULL, 
	require_payment_method BOOLEAN NOT NULL, 
	preview_image TEXT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	prices TEXT NOT NULL, 
	deleted_at BIGINT, 
	CONSTRAINT pk_services PRIMARY KEY (id), 
	CONSTRAINT fk_services_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_services_account_id ON services (account_id, id);

CREATE INDEX ix_services_offered ON services (account_id, active, id) WHERE deleted_at IS NULL;

CREATE TABLE sessions (
	id BIGSERIAL NOT NULL, 
	digest BYTEA NOT NULL, 
	user_id BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	seen_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	address TEXT, 
	user_agent TEXT, 
	CONSTRAINT pk_sessions PRIMARY KEY (id), 
	CONSTRAINT uq_sessions_digest UNIQUE (digest), 
	CONSTRAINT fk_sessions_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_sessions_user_id ON sessions (user_id);

CREATE INDEX ix_sessions_expires_at ON sessions (expires_at);

CREATE TABLE sign_in_links (
	digest BYTEA NOT NULL, 
	user_id BIGINT NOT NULL, 
	purpose TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	used_at BIGINT, 
	CONSTRAINT pk_sign_in_links PRIMARY KEY (digest), 
	CONSTRAINT fk_sign_in_links_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_sign_in_links_user_id ON sign_in_links (user_id);

CREATE INDEX ix_sign_in_links_expires_at ON sign_in_links (expires_at);

CREATE TABLE tokens (
	id BIGSERIAL NOT NULL, 
	kind TEXT NOT NULL, 
	digest BYTEA NOT NULL, 
	user_id BIGINT NOT NULL, 
	scopes TEXT NOT NULL, 
	permissions TEXT, 
	account_id BIGINT, 
	repositories TEXT, 
	app_id BIGINT, 
	installation_id BIGINT, 
	parent_id BIGINT, 
	root_id BIGINT, 
	family TEXT, 
	note TEXT, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT, 
	last_used_at BIGINT, 
	revoked_at BIGINT, 
	CONSTRAINT pk_tokens PRIMARY KEY (id), 
	CONSTRAINT uq_tokens_digest UNIQUE (digest), 
	CONSTRAINT fk_tokens_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_tokens_user_id ON tokens (user_id);

CREATE INDEX ix_tokens_app_id ON tokens (app_id);

CREATE INDEX ix_tokens_installation_id ON tokens (installation_id);

CREATE INDEX ix_tokens_parent_id ON tokens (parent_id);

CREATE INDEX ix_tokens_family ON tokens (family);

CREATE INDEX ix_tokens_ended ON tokens (coalesce(revoked_at, expires_at));

CREATE TABLE app_keys (
	id BIGSERIAL NOT NULL, 
	app_id BIGINT NOT NULL, 
	public_key TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_app_keys PRIMARY KEY (id), 
	CONSTRAINT fk_app_keys_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE
);

CREATE INDEX ix_app_keys_app_id ON app_keys (app_id);

CREATE TABLE app_secrets (
	id BIGSERIAL NOT NULL, 
	app_id BIGINT NOT NULL, 
	digest BYTEA NOT NULL, 
	last_eight TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	last_used_at BIGINT, 
	CONSTRAINT pk_app_secrets PRIMARY KEY (id), 
	CONSTRAINT fk_app_secrets_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE, 
	CONSTRAINT uq_app_secrets_digest UNIQUE (digest)
);

CREATE INDEX ix_app_secrets_app_id ON app_secrets (app_id);

CREATE TABLE authorization_codes (
	digest BYTEA NOT NULL, 
	app_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	redirect_uri TEXT NOT NULL, 
	scopes TEXT NOT NULL, 
	code_challenge TEXT, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	used_at BIGINT, 
	family TEXT NOT NULL, 
	CONSTRAINT pk_authorization_codes PRIMARY KEY (digest), 
	CONSTRAINT fk_authorization_codes_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE, 
	CONSTRAINT fk_authorization_codes_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_authorization_codes_app_id ON authorization_codes (app_id, user_id);

CREATE INDEX ix_authorization_codes_expires_at ON authorization_codes (expires_at);

CREATE TABLE board_filters (
	user_id BIGINT NOT NULL, 
	repository_id BIGINT NOT NULL, 
	filters TEXT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_board_filters PRIMARY KEY (user_id, repository_id), 
	CONSTRAINT fk_board_filters_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_board_filters_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE INDEX ix_board_filters_repository_id ON board_filters (repository_id);

CREATE TABLE calendar_feeds (
	id BIGSERIAL NOT NULL, 
	user_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	digest BYTEA NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_calendar_feeds PRIMARY KEY (id), 
	CONSTRAINT fk_calendar_feeds_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_calendar_feeds_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT uq_calendar_feeds_digest UNIQUE (digest)
);

CREATE INDEX ix_calendar_feeds_user_id ON calendar_feeds (user_id, repository_id);

CREATE INDEX ix_calendar_feeds_repository_id ON calendar_feeds (repository_id);

CREATE TABLE clients (
	repository_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	email TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	CONSTRAINT pk_clients PRIMARY KEY (id), 
	CONSTRAINT uq_clients_repository_id_user_id UNIQUE (repository_id, user_id), 
	CONSTRAINT fk_clients_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_clients_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_clients_user ON clients (user_id, repository_id);

CREATE TABLE collaborators (
	repository_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	role TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_collaborators PRIMARY KEY (repository_id, user_id), 
	CONSTRAINT fk_collaborators_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_collaborators_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_collaborators_user ON collaborators (user_id, repository_id);

CREATE TABLE columns (
	repository_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	title TEXT NOT NULL, 
	stage TEXT, 
	finished BOOLEAN NOT NULL, 
	start_timer BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	revision BIGINT DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_columns PRIMARY KEY (id), 
	CONSTRAINT fk_columns_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE INDEX ix_columns_repository_id ON columns (repository_id, position);

CREATE TABLE device_codes (
	digest BYTEA NOT NULL, 
	user_code TEXT NOT NULL, 
	app_id BIGINT NOT NULL, 
	scopes TEXT NOT NULL, 
	interval_s INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	polled_at BIGINT, 
	user_id BIGINT, 
	decision TEXT, 
	used_at BIGINT, 
	CONSTRAINT pk_device_codes PRIMARY KEY (digest), 
	CONSTRAINT uq_device_codes_user_code UNIQUE (user_code), 
	CONSTRAINT fk_device_codes_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE, 
	CONSTRAINT fk_device_codes_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_device_codes_app_id ON device_codes (app_id, expires_at);

CREATE INDEX ix_device_codes_expires_at ON device_codes (expires_at);

CREATE TABLE folders (
	repository_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	title TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_folders PRIMARY KEY (id), 
	CONSTRAINT fk_folders_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE INDEX ix_folders_repository_id ON folders (repository_id);

CREATE TABLE grants (
	id BIGSERIAL NOT NULL, 
	app_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	scopes TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_grants PRIMARY KEY (id), 
	CONSTRAINT uq_grants_app_id_user_id UNIQUE (app_id, user_id), 
	CONSTRAINT fk_grants_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE, 
	CONSTRAINT fk_grants_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_grants_user_id ON grants (user_id);

CREATE TABLE hooks (
	id SERIAL NOT NULL, 
	account_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	active BOOLEAN NOT NULL, 
	events TEXT NOT NULL, 
	config TEXT NOT NULL, 
	secret BYTEA, 
	previous_secret BYTEA, 
	previous_secret_until BIGINT, 
	password BYTEA, 
	app_id BIGINT, 
	installation_id BIGINT, 
	version BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_hooks PRIMARY KEY (id), 
	CONSTRAINT fk_hooks_account_id FOREIGN KEY(account_id) REFERENCES accounts (id), 
	CONSTRAINT fk_hooks_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id)
);

CREATE INDEX ix_hooks_repository_id ON hooks (repository_id);

CREATE INDEX ix_hooks_account_id ON hooks (account_id);

CREATE INDEX ix_hooks_organization ON hooks (account_id, id) WHERE repository_id IS NULL;

CREATE INDEX ix_hooks_app ON hooks (account_id, id) WHERE app_id IS NOT NULL;

CREATE TABLE idempotency_keys (
	token_id BIGINT NOT NULL, 
	key TEXT NOT NULL, 
	fingerprint BYTEA NOT NULL, 
	body BYTEA NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency_keys PRIMARY KEY (token_id, key), 
	CONSTRAINT fk_idempotency_keys_token_id FOREIGN KEY(token_id) REFERENCES tokens (id) ON DELETE CASCADE
);

CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);

CREATE TABLE import_links (
	account_id BIGINT NOT NULL, 
	source TEXT NOT NULL, 
	external_id TEXT NOT NULL, 
	repository_id BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	internal_id TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	CONSTRAINT pk_import_links PRIMARY KEY (account_id, source, external_id), 
	CONSTRAINT fk_import_links_account_id FOREIGN KEY(account_id) REFERENCES accounts (id), 
	CONSTRAINT fk_import_links_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE INDEX ix_import_links_internal_id ON import_links (repository_id, kind, internal_id);

CREATE TABLE installations (
	id BIGSERIAL NOT NULL, 
	app_id BIGINT NOT NULL, 
	account_id BIGINT NOT NULL, 
	repository_selection TEXT NOT NULL, 
	permissions TEXT NOT NULL, 
	suspended_at BIGINT, 
	suspended_by TEXT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_installations PRIMARY KEY (id), 
	CONSTRAINT uq_installations_app_id_account_id UNIQUE (app_id, account_id), 
	CONSTRAINT fk_installations_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE, 
	CONSTRAINT fk_installations_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_installations_account_id ON installations (account_id);

CREATE TABLE invitations (
	id BIGSERIAL NOT NULL, 
	account_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	user_id BIGINT, 
	email TEXT, 
	role TEXT NOT NULL, 
	inviter_id BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	place TEXT NOT NULL, 
	invitee TEXT NOT NULL, 
	link_digest BYTEA, 
	CONSTRAINT pk_invitations PRIMARY KEY (id), 
	CONSTRAINT uq_invitations_place_invitee UNIQUE (place, invitee), 
	CONSTRAINT fk_invitations_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_invitations_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_invitations_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_invitations_inviter_id FOREIGN KEY(inviter_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX ix_invitations_link_digest ON invitations (link_digest) WHERE link_digest IS NOT NULL;

CREATE INDEX ix_invitations_invitee ON invitations (invitee);

CREATE INDEX ix_invitations_expires_at ON invitations (expires_at);

CREATE TABLE invoices (
	repository_id BIGINT NOT NULL, 
	account_id BIGINT NOT NULL, 
	user_id BIGINT, 
	id TEXT NOT NULL, 
	invoice_number TEXT, 
	status TEXT NOT NULL, 
	bill_from TEXT, 
	bill_to TEXT, 
	address TEXT, 
	amount_minor BIGINT NOT NULL, 
	tax_millionths BIGINT, 
	tax_category TEXT, 
	discount_millionths BIGINT, 
	discount_minor BIGINT, 
	taxes TEXT NOT NULL, 
	total_minor BIGINT NOT NULL, 
	currency TEXT NOT NULL, 
	issued BIGINT, 
	due BIGINT, 
	paid_at BIGINT, 
	payment_method TEXT, 
	payment_terms TEXT, 
	credit_type TEXT, 
	items TEXT NOT NULL, 
	recurring_items TEXT NOT NULL, 
	group_by TEXT, 
	language TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	service_checkout_id TEXT, 
	paid_minor BIGINT, 
	credited_minor BIGINT, 
	payments TEXT, 
	credit_notes TEXT, 
	buyer TEXT, 
	seller TEXT, 
	overdue_at BIGINT, 
	service_from TEXT, 
	service_to TEXT, 
	CONSTRAINT pk_invoices PRIMARY KEY (id), 
	CONSTRAINT uq_invoices_account_id_invoice_number UNIQUE (account_id, invoice_number), 
	CONSTRAINT fk_invoices_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_invoices_account_id FOREIGN KEY(account_id) REFERENCES accounts (id), 
	CONSTRAINT fk_invoices_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_invoices_repository_id ON invoices (repository_id, id);

CREATE INDEX ix_invoices_status ON invoices (repository_id, status, id);

CREATE INDEX ix_invoices_unsettled ON invoices (repository_id, id, overdue_at) WHERE status IN ('sent', 'partially_paid');

CREATE TABLE project_billing (
	repository_id BIGINT NOT NULL, 
	currency TEXT, 
	tax_millionths BIGINT, 
	tax_category TEXT, 
	payment_days BIGINT, 
	language TEXT, 
	hourly_rate_minor BIGINT, 
	billable BOOLEAN, 
	round_minutes BIGINT, 
	round_mode TEXT, 
	budget_ms BIGINT, 
	budget_minor BIGINT, 
	budget_mark BIGINT, 
	buyer_name TEXT, 
	buyer_address TEXT, 
	buyer_vat_id TEXT, 
	buyer_email TEXT, 
	buyer_country TEXT, 
	CONSTRAINT pk_project_billing PRIMARY KEY (repository_id), 
	CONSTRAINT fk_project_billing_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE TABLE project_rates (
	repository_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	hourly_rate_minor BIGINT NOT NULL, 
	CONSTRAINT pk_project_rates PRIMARY KEY (repository_id, user_id), 
	CONSTRAINT fk_project_rates_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_project_rates_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_project_rates_user ON project_rates (user_id);

CREATE TABLE refresh_tokens (
	id BIGSERIAL NOT NULL, 
	digest BYTEA NOT NULL, 
	app_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	family TEXT NOT NULL, 
	public BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	used_at BIGINT, 
	CONSTRAINT pk_refresh_tokens PRIMARY KEY (id), 
	CONSTRAINT uq_refresh_tokens_digest UNIQUE (digest), 
	CONSTRAINT fk_refresh_tokens_app_id FOREIGN KEY(app_id) REFERENCES apps (id) ON DELETE CASCADE, 
	CONSTRAINT fk_refresh_tokens_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_refresh_tokens_app_id ON refresh_tokens (app_id, user_id);

CREATE INDEX ix_refresh_tokens_family ON refresh_tokens (family);

CREATE INDEX ix_refresh_tokens_expires_at ON refresh_tokens (expires_at);

CREATE TABLE sent_forms (
	digest BYTEA NOT NULL, 
	session_id BIGINT NOT NULL, 
	answer BYTEA, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_sent_forms PRIMARY KEY (digest), 
	CONSTRAINT fk_sent_forms_session_id FOREIGN KEY(session_id) REFERENCES sessions (id) ON DELETE CASCADE
);

CREATE INDEX ix_sent_forms_session_id ON sent_forms (session_id);

CREATE INDEX ix_sent_forms_created_at ON sent_forms (created_at);

CREATE TABLE service_prices (
	service_id TEXT NOT NULL, 
	id TEXT NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	currency TEXT NOT NULL, 
	interval TEXT NOT NULL, 
	credits_minor BIGINT, 
	CONSTRAINT pk_service_prices PRIMARY KEY (id), 
	CONSTRAINT fk_service_prices_service_id FOREIGN KEY(service_id) REFERENCES services (id) ON DELETE CASCADE
);

CREATE INDEX ix_service_prices_service_id ON service_prices (service_id);

CREATE TABLE task_credits (
	repository_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	balance_after_minor BIGINT NOT NULL, 
	notes TEXT, 
	reversed BOOLEAN NOT NULL, 
	reverses_id TEXT, 
	expires_at BIGINT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	remaining_minor BIGINT NOT NULL, 
	uses TEXT NOT NULL, 
	task_id TEXT, 
	task_title TEXT, 
	user_id BIGINT, 
	CONSTRAINT pk_task_credits PRIMARY KEY (id), 
	CONSTRAINT fk_task_credits_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_task_credits_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_task_credits_repository_id ON task_credits (repository_id, id);

CREATE INDEX ix_task_credits_open ON task_credits (repository_id, id, expires_at, remaining_minor, amount_minor) WHERE remaining_minor > 0;

CREATE INDEX ix_task_credits_expiring ON task_credits (expires_at) WHERE remaining_minor > 0;

CREATE TABLE task_numbers (
	repository_id BIGINT NOT NULL, 
	last BIGINT NOT NULL, 
	CONSTRAINT pk_task_numbers PRIMARY KEY (repository_id), 
	CONSTRAINT fk_task_numbers_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE TABLE arrivals (
	id BIGSERIAL NOT NULL, 
	hook_id INTEGER NOT NULL, 
	arrived_at BIGINT NOT NULL, 
	signature TEXT NOT NULL, 
	headers BYTEA NOT NULL, 
	body BYTEA NOT NULL, 
	size INTEGER NOT NULL, 
	CONSTRAINT pk_arrivals PRIMARY KEY (id), 
	CONSTRAINT fk_arrivals_hook_id FOREIGN KEY(hook_id) REFERENCES hooks (id) ON DELETE CASCADE
);

CREATE INDEX ix_arrivals_hook_id ON arrivals (hook_id, id);

CREATE INDEX ix_arrivals_arrived_at ON arrivals (arrived_at);

CREATE TABLE credit_notes (
	repository_id BIGINT NOT NULL, 
	account_id BIGINT NOT NULL, 
	invoice_id TEXT NOT NULL, 
	user_id BIGINT, 
	id TEXT NOT NULL, 
	credit_note_number TEXT NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	taxes TEXT NOT NULL, 
	total_minor BIGINT NOT NULL, 
	currency TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	issued BIGINT NOT NULL, 
	items TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	CONSTRAINT pk_credit_notes PRIMARY KEY (id), 
	CONSTRAINT uq_credit_notes_account_id_credit_note_number UNIQUE (account_id, credit_note_number), 
	CONSTRAINT uq_credit_notes_invoice_id_position UNIQUE (invoice_id, position), 
	CONSTRAINT fk_credit_notes_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_credit_notes_account_id FOREIGN KEY(account_id) REFERENCES accounts (id), 
	CONSTRAINT fk_credit_notes_invoice_id FOREIGN KEY(invoice_id) REFERENCES invoices (id) ON DELETE CASCADE, 
	CONSTRAINT fk_credit_notes_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_credit_notes_repository_id ON credit_notes (repository_id, id);

CREATE TABLE installation_repositories (
	installation_id BIGINT NOT NULL, 
	repository_id BIGINT NOT NULL, 
	CONSTRAINT pk_installation_repositories PRIMARY KEY (installation_id, repository_id), 
	CONSTRAINT fk_installation_repositories_installation_id FOREIGN KEY(installation_id) REFERENCES installations (id) ON DELETE CASCADE, 
	CONSTRAINT fk_installation_repositories_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE INDEX ix_installation_repositories_repository_id ON installation_repositories (repository_id);

CREATE TABLE lanes (
	hook_id INTEGER NOT NULL, 
	failing_since BIGINT, 
	manual_minute BIGINT NOT NULL, 
	manual_count INTEGER NOT NULL, 
	CONSTRAINT pk_lanes PRIMARY KEY (hook_id), 
	CONSTRAINT fk_lanes_hook_id FOREIGN KEY(hook_id) REFERENCES hooks (id) ON DELETE CASCADE
);

CREATE TABLE payments (
	repository_id BIGINT NOT NULL, 
	invoice_id TEXT NOT NULL, 
	user_id BIGINT, 
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	amount_minor BIGINT NOT NULL, 
	currency TEXT NOT NULL, 
	paid_at BIGINT NOT NULL, 
	method TEXT, 
	reference TEXT, 
	refund_of TEXT, 
	created_at BIGINT NOT NULL, 
	position BIGINT NOT NULL, 
	CONSTRAINT pk_payments PRIMARY KEY (id), 
	CONSTRAINT uq_payments_invoice_id_position UNIQUE (invoice_id, position), 
	CONSTRAINT fk_payments_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_payments_invoice_id FOREIGN KEY(invoice_id) REFERENCES invoices (id) ON DELETE CASCADE, 
	CONSTRAINT fk_payments_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_payments_repository_id ON payments (repository_id);

CREATE INDEX ix_payments_refund_of ON payments (refund_of, amount_minor) WHERE refund_of IS NOT NULL;

CREATE TABLE receivers (
	hook_id INTEGER NOT NULL, 
	digest BYTEA NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_receivers PRIMARY KEY (hook_id), 
	CONSTRAINT fk_receivers_hook_id FOREIGN KEY(hook_id) REFERENCES hooks (id) ON DELETE CASCADE, 
	CONSTRAINT uq_receivers_digest UNIQUE (digest)
);

CREATE TABLE redeliveries (
	id BIGSERIAL NOT NULL, 
	hook_id INTEGER NOT NULL, 
	filters TEXT NOT NULL, 
	from_id BIGINT NOT NULL, 
	after_id BIGINT NOT NULL, 
	upto_id BIGINT NOT NULL, 
	queued BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	CONSTRAINT pk_redeliveries PRIMARY KEY (id), 
	CONSTRAINT fk_redeliveries_hook_id FOREIGN KEY(hook_id) REFERENCES hooks (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX ix_redeliveries_running ON redeliveries (hook_id) WHERE finished_at IS NULL;

CREATE INDEX ix_redeliveries_hook_id ON redeliveries (hook_id, id);

CREATE TABLE service_checkouts (
	repository_id BIGINT NOT NULL, 
	service_id TEXT NOT NULL, 
	service_price_id TEXT, 
	user_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	qty BIGINT NOT NULL, 
	unsubscribe_reason TEXT, 
	unsubscribed_feedback TEXT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	completed_at BIGINT, 
	pauses BIGINT NOT NULL, 
	pause_date BIGINT, 
	cancel_date BIGINT, 
	period_end BIGINT, 
	periods BIGINT NOT NULL, 
	anchor BIGINT, 
	anchor_periods BIGINT NOT NULL, 
	due_at BIGINT, 
	deleted_at BIGINT, 
	CONSTRAINT pk_service_checkouts PRIMARY KEY (id), 
	CONSTRAINT fk_service_checkouts_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_service_checkouts_service_id FOREIGN KEY(service_id) REFERENCES services (id), 
	CONSTRAINT fk_service_checkouts_service_price_id FOREIGN KEY(service_price_id) REFERENCES service_prices (id), 
	CONSTRAINT fk_service_checkouts_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_service_checkouts_repository_id ON service_checkouts (repository_id, id);

CREATE INDEX ix_service_checkouts_due_at ON service_checkouts (due_at, id);

CREATE TABLE task_buckets (
	id BIGINT NOT NULL, 
	column_id TEXT NOT NULL, 
	rank BIGINT NOT NULL, 
	size BIGINT NOT NULL, 
	CONSTRAINT pk_task_buckets PRIMARY KEY (id), 
	CONSTRAINT fk_task_buckets_column_id FOREIGN KEY(column_id) REFERENCES columns (id) ON DELETE CASCADE
);

CREATE INDEX ix_task_buckets_column_id ON task_buckets (column_id, rank);

CREATE TABLE service_checkout_periods (
	service_checkout_id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	started_at BIGINT NOT NULL, 
	invoice_id TEXT, 
	credit_id TEXT, 
	CONSTRAINT pk_service_checkout_periods PRIMARY KEY (service_checkout_id, number), 
	CONSTRAINT fk_service_checkout_periods_service_checkout_id FOREIGN KEY(service_checkout_id) REFERENCES service_checkouts (id) ON DELETE CASCADE
);

CREATE TABLE tasks (
	repository_id BIGINT NOT NULL, 
	column_id TEXT, 
	bucket_id BIGINT, 
	rank BIGINT, 
	deleted_at BIGINT, 
	deadline_told BIGINT, 
	id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	title TEXT NOT NULL, 
	description TEXT, 
	cover_url TEXT, 
	priority TEXT, 
	deadline BIGINT, 
	fields TEXT NOT NULL, 
	sections TEXT NOT NULL, 
	labels TEXT NOT NULL, 
	hourly_rate_minor BIGINT, 
	billable BOOLEAN, 
	estimate_ms BIGINT, 
	parent_id TEXT, 
	repeat TEXT, 
	completed_at BIGINT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	repeat_since BIGINT, 
	next_id TEXT, 
	CONSTRAINT pk_tasks PRIMARY KEY (id), 
	CONSTRAINT fk_tasks_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_tasks_column_id FOREIGN KEY(column_id) REFERENCES columns (id) ON DELETE SET NULL, 
	CONSTRAINT fk_tasks_bucket_id FOREIGN KEY(bucket_id) REFERENCES task_buckets (id) ON DELETE SET NULL, 
	CONSTRAINT fk_tasks_parent_id FOREIGN KEY(parent_id) REFERENCES tasks (id) ON DELETE SET NULL, 
	CONSTRAINT fk_tasks_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

ALTER TABLE tasks SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE UNIQUE INDEX uq_tasks_number ON tasks (repository_id, number) WHERE number > 0;

CREATE INDEX ix_tasks_column_id ON tasks (column_id);

CREATE INDEX ix_tasks_bucket_id ON tasks (bucket_id, rank);

CREATE INDEX ix_tasks_repository_id ON tasks (repository_id, id);

CREATE INDEX ix_tasks_parent_id ON tasks (parent_id, id) WHERE parent_id IS NOT NULL;

CREATE INDEX ix_tasks_deleted_at ON tasks (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE INDEX ix_tasks_trash ON tasks (repository_id, deleted_at, id) WHERE deleted_at IS NOT NULL;

CREATE INDEX ix_tasks_created_at ON tasks (repository_id, created_at, id) WHERE deleted_at IS NULL;

CREATE INDEX ix_tasks_updated_at ON tasks (repository_id, updated_at, id) WHERE deleted_at IS NULL;

CREATE INDEX ix_tasks_title ON tasks (repository_id, title, id) WHERE deleted_at IS NULL;

CREATE INDEX ix_tasks_deadline_first ON tasks (repository_id, coalesce(deadline, 4611686018427387904), id) WHERE deleted_at IS NULL;

CREATE INDEX ix_tasks_deadline_last ON tasks (repository_id, coalesce(deadline, -1), id) WHERE deleted_at IS NULL;

CREATE INDEX ix_tasks_deadline_untold ON tasks (deadline) WHERE completed_at IS NULL AND deleted_at IS NULL AND coalesce(deadline_told, -1) != deadline;

CREATE TABLE closing_commits (
	task_id TEXT NOT NULL, 
	commit_id TEXT NOT NULL, 
	CONSTRAINT pk_closing_commits PRIMARY KEY (task_id, commit_id), 
	CONSTRAINT fk_closing_commits_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE
);

CREATE TABLE files (
	repository_id BIGINT NOT NULL, 
	folder_id TEXT, 
	user_id BIGINT NOT NULL, 
	id TEXT NOT NULL, 
	title TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	task_id TEXT, 
	size BIGINT NOT NULL, 
	content_type TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	blob TEXT NOT NULL, 
	deleted_at BIGINT, 
	CONSTRAINT pk_files PRIMARY KEY (id), 
	CONSTRAINT fk_files_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_files_folder_id FOREIGN KEY(folder_id) REFERENCES folders (id) ON DELETE SET NULL, 
	CONSTRAINT fk_files_user_id FOREIGN KEY(user_id) REFERENCES accounts (id), 
	CONSTRAINT fk_files_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE SET NULL
);

CREATE UNIQUE INDEX ix_files_blob ON files (blob);

CREATE INDEX ix_files_repository_id ON files (repository_id, id);

CREATE INDEX ix_files_folder_id ON files (folder_id);

CREATE INDEX ix_files_in_folder ON files (repository_id, folder_id, id);

CREATE INDEX ix_files_open ON files (repository_id, id) WHERE private IS false;

CREATE INDEX ix_files_on_task_open ON files (repository_id, task_id, id) WHERE private IS false;

CREATE INDEX ix_files_task_id ON files (task_id) WHERE task_id IS NOT NULL;

CREATE INDEX ix_files_on_task ON files (repository_id, task_id, id) WHERE task_id IS NOT NULL;

CREATE INDEX ix_files_trash ON files (repository_id, deleted_at, id) WHERE deleted_at IS NOT NULL;

CREATE INDEX ix_files_deleted_at ON files (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE task_assignees (
	task_id TEXT NOT NULL, 
	user_id BIGINT NOT NULL, 
	CONSTRAINT pk_task_assignees PRIMARY KEY (task_id, user_id), 
	CONSTRAINT fk_task_assignees_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_task_assignees_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE
);

CREATE INDEX ix_task_assignees_user ON task_assignees (user_id, task_id);

CREATE TABLE task_blockers (
	task_id TEXT NOT NULL, 
	blocker_id TEXT NOT NULL, 
	CONSTRAINT pk_task_blockers PRIMARY KEY (task_id, blocker_id), 
	CONSTRAINT fk_task_blockers_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_task_blockers_blocker_id FOREIGN KEY(blocker_id) REFERENCES tasks (id) ON DELETE CASCADE
);

CREATE INDEX ix_task_blockers_blocker ON task_blockers (blocker_id, task_id);

CREATE TABLE task_comments (
	repository_id BIGINT NOT NULL, 
	task_id TEXT NOT NULL, 
	id BIGSERIAL NOT NULL, 
	text TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	imported_author TEXT, 
	user_id BIGINT NOT NULL, 
	CONSTRAINT pk_task_comments PRIMARY KEY (id), 
	CONSTRAINT fk_task_comments_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_task_comments_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_task_comments_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_task_comments_task_id ON task_comments (task_id, id);

CREATE INDEX ix_task_comments_repository_id ON task_comments (repository_id);

CREATE INDEX ix_task_comments_created_at ON task_comments (repository_id, created_at, id);

CREATE INDEX ix_task_comments_open ON task_comments (task_id, id) WHERE private IS false;

CREATE TABLE timesheets (
	repository_id BIGINT NOT NULL, 
	task_id TEXT, 
	user_id BIGINT NOT NULL, 
	start_time BIGINT NOT NULL, 
	end_time BIGINT, 
	running_since BIGINT, 
	duration_ms BIGINT NOT NULL, 
	is_active BOOLEAN NOT NULL, 
	finished BOOLEAN NOT NULL, 
	id TEXT NOT NULL, 
	notes TEXT, 
	billable BOOLEAN NOT NULL, 
	billable_rate_minor BIGINT, 
	rate_source TEXT, 
	invoice_id TEXT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	CONSTRAINT pk_timesheets PRIMARY KEY (id), 
	CONSTRAINT fk_timesheets_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_timesheets_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE SET NULL, 
	CONSTRAINT fk_timesheets_user_id FOREIGN KEY(user_id) REFERENCES accounts (id), 
	CONSTRAINT fk_timesheets_invoice_id FOREIGN KEY(invoice_id) REFERENCES invoices (id) ON DELETE SET NULL
);

ALTER TABLE timesheets SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE UNIQUE INDEX uq_timesheets_running ON timesheets (user_id) WHERE is_active;

CREATE INDEX ix_timesheets_repository_id ON timesheets (repository_id, id);

CREATE INDEX ix_timesheets_task ON timesheets (task_id, id);

CREATE INDEX ix_timesheets_user ON timesheets (repository_id, user_id, id);

CREATE INDEX ix_timesheets_invoice_id ON timesheets (invoice_id);

CREATE INDEX ix_timesheets_started ON timesheets (repository_id, start_time);

CREATE INDEX ix_timesheets_active ON timesheets (repository_id, start_time) WHERE is_active;

CREATE INDEX ix_timesheets_own ON timesheets (user_id, start_time) WHERE start_time > -1;

CREATE INDEX ix_timesheets_paused ON timesheets (repository_id) WHERE NOT finished AND NOT is_active AND billable;

CREATE TABLE unmatched_assignees (
	task_id TEXT NOT NULL, 
	repository_id BIGINT NOT NULL, 
	source TEXT NOT NULL, 
	username TEXT NOT NULL, 
	full_name TEXT NOT NULL, 
	CONSTRAINT pk_unmatched_assignees PRIMARY KEY (task_id, username, full_name), 
	CONSTRAINT fk_unmatched_assignees_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_unmatched_assignees_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE
);

CREATE INDEX ix_unmatched_assignees_person ON unmatched_assignees (repository_id, source, username, full_name);

CREATE TABLE file_comments (
	repository_id BIGINT NOT NULL, 
	file_id TEXT NOT NULL, 
	id BIGSERIAL NOT NULL, 
	text TEXT NOT NULL, 
	private BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	CONSTRAINT pk_file_comments PRIMARY KEY (id), 
	CONSTRAINT fk_file_comments_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_file_comments_file_id FOREIGN KEY(file_id) REFERENCES files (id) ON DELETE CASCADE, 
	CONSTRAINT fk_file_comments_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_file_comments_file_id ON file_comments (file_id, id);

CREATE INDEX ix_file_comments_repository_id ON file_comments (repository_id);

CREATE INDEX ix_file_comments_created_at ON file_comments (repository_id, created_at, id);

CREATE INDEX ix_file_comments_open ON file_comments (file_id, id) WHERE private IS false;

CREATE TABLE file_comment_replies (
	repository_id BIGINT NOT NULL, 
	id BIGSERIAL NOT NULL, 
	body TEXT NOT NULL, 
	file_comment_id BIGINT NOT NULL, 
	private BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	plain_body TEXT NOT NULL, 
	user_id BIGINT NOT NULL, 
	CONSTRAINT pk_file_comment_replies PRIMARY KEY (id), 
	CONSTRAINT fk_file_comment_replies_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_file_comment_replies_file_comment_id FOREIGN KEY(file_comment_id) REFERENCES file_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_file_comment_replies_user_id FOREIGN KEY(user_id) REFERENCES accounts (id)
);

CREATE INDEX ix_file_comment_replies_file_comment_id ON file_comment_replies (file_comment_id, id);

CREATE INDEX ix_file_comment_replies_repository_id ON file_comment_replies (repository_id);

CREATE INDEX ix_file_comment_replies_created_at ON file_comment_replies (repository_id, created_at, id);

CREATE TABLE mail_messages (
	id BIGSERIAL NOT NULL, 
	user_id BIGINT, 
	kind TEXT NOT NULL, 
	actor_id BIGINT, 
	account_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	task_id TEXT, 
	task_comment_id BIGINT, 
	file_comment_id BIGINT, 
	file_comment_reply_id BIGINT, 
	invoice_id TEXT, 
	hook_id INTEGER, 
	payment_id TEXT, 
	invitation_id BIGINT, 
	detail TEXT, 
	created_at BIGINT NOT NULL, 
	recipient TEXT NOT NULL, 
	language TEXT, 
	sealed BYTEA, 
	next_attempt_at BIGINT, 
	attempts BIGINT DEFAULT 0 NOT NULL, 
	sent_at BIGINT, 
	failed_at BIGINT, 
	failure TEXT, 
	CONSTRAINT pk_mail_messages PRIMARY KEY (id), 
	CONSTRAINT fk_mail_messages_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_actor_id FOREIGN KEY(actor_id) REFERENCES accounts (id), 
	CONSTRAINT fk_mail_messages_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_task_comment_id FOREIGN KEY(task_comment_id) REFERENCES task_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_file_comment_id FOREIGN KEY(file_comment_id) REFERENCES file_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_file_comment_reply_id FOREIGN KEY(file_comment_reply_id) REFERENCES file_comment_replies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_invoice_id FOREIGN KEY(invoice_id) REFERENCES invoices (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_hook_id FOREIGN KEY(hook_id) REFERENCES hooks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mail_messages_invitation_id FOREIGN KEY(invitation_id) REFERENCES invitations (id) ON DELETE CASCADE
);

CREATE INDEX ix_mail_messages_account_id ON mail_messages (account_id);

CREATE INDEX ix_mail_messages_user_id ON mail_messages (user_id) WHERE user_id IS NOT NULL;

CREATE INDEX ix_mail_messages_due ON mail_messages (next_attempt_at, id) WHERE next_attempt_at IS NOT NULL;

CREATE INDEX ix_mail_messages_sent ON mail_messages (recipient, sent_at) WHERE sent_at IS NOT NULL;

CREATE INDEX ix_mail_messages_sent_at ON mail_messages (sent_at) WHERE sent_at IS NOT NULL;

CREATE INDEX ix_mail_messages_failed_at ON mail_messages (failed_at) WHERE failed_at IS NOT NULL;

CREATE INDEX ix_mail_messages_invitation_id ON mail_messages (invitation_id) WHERE invitation_id IS NOT NULL;

CREATE INDEX ix_mail_messages_own_due ON mail_messages (next_attempt_at, id) WHERE next_attempt_at IS NOT NULL AND kind IN ('sign_in_link', 'password_link', 'address_link');

CREATE INDEX ix_mail_messages_repository_id ON mail_messages (repository_id) WHERE repository_id IS NOT NULL;

CREATE INDEX ix_mail_messages_task_id ON mail_messages (task_id) WHERE task_id IS NOT NULL;

CREATE INDEX ix_mail_messages_task_comment_id ON mail_messages (task_comment_id) WHERE task_comment_id IS NOT NULL;

CREATE INDEX ix_mail_messages_file_comment_id ON mail_messages (file_comment_id) WHERE file_comment_id IS NOT NULL;

CREATE INDEX ix_mail_messages_file_comment_reply_id ON mail_messages (file_comment_reply_id) WHERE file_comment_reply_id IS NOT NULL;

CREATE INDEX ix_mail_messages_invoice_id ON mail_messages (invoice_id) WHERE invoice_id IS NOT NULL;

CREATE INDEX ix_mail_messages_hook_id ON mail_messages (hook_id) WHERE hook_id IS NOT NULL;

CREATE TABLE mentions (
	id BIGSERIAL NOT NULL, 
	repository_id BIGINT NOT NULL, 
	user_id BIGINT NOT NULL, 
	author_id BIGINT NOT NULL, 
	task_comment_id BIGINT, 
	file_comment_id BIGINT, 
	file_comment_reply_id BIGINT, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_mentions PRIMARY KEY (id), 
	CONSTRAINT uq_mentions_task_comment_id_user_id UNIQUE (task_comment_id, user_id), 
	CONSTRAINT uq_mentions_file_comment_id_user_id UNIQUE (file_comment_id, user_id), 
	CONSTRAINT uq_mentions_file_comment_reply_id_user_id UNIQUE (file_comment_reply_id, user_id), 
	CONSTRAINT fk_mentions_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_mentions_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mentions_author_id FOREIGN KEY(author_id) REFERENCES accounts (id), 
	CONSTRAINT fk_mentions_task_comment_id FOREIGN KEY(task_comment_id) REFERENCES task_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mentions_file_comment_id FOREIGN KEY(file_comment_id) REFERENCES file_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_mentions_file_comment_reply_id FOREIGN KEY(file_comment_reply_id) REFERENCES file_comment_replies (id) ON DELETE CASCADE
);

CREATE INDEX ix_mentions_user_id ON mentions (user_id, id);

CREATE INDEX ix_mentions_repository_id ON mentions (repository_id);

CREATE TABLE notifications (
	id BIGSERIAL NOT NULL, 
	user_id BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	actor_id BIGINT, 
	account_id BIGINT NOT NULL, 
	repository_id BIGINT, 
	task_id TEXT, 
	task_comment_id BIGINT, 
	file_comment_id BIGINT, 
	file_comment_reply_id BIGINT, 
	invoice_id TEXT, 
	hook_id INTEGER, 
	payment_id TEXT, 
	invitation_id BIGINT, 
	detail TEXT, 
	created_at BIGINT NOT NULL, 
	read_at BIGINT, 
	CONSTRAINT pk_notifications PRIMARY KEY (id), 
	CONSTRAINT fk_notifications_user_id FOREIGN KEY(user_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_actor_id FOREIGN KEY(actor_id) REFERENCES accounts (id), 
	CONSTRAINT fk_notifications_account_id FOREIGN KEY(account_id) REFERENCES accounts (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_repository_id FOREIGN KEY(repository_id) REFERENCES projects (repository_id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_task_id FOREIGN KEY(task_id) REFERENCES tasks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_task_comment_id FOREIGN KEY(task_comment_id) REFERENCES task_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_file_comment_id FOREIGN KEY(file_comment_id) REFERENCES file_comments (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_file_comment_reply_id FOREIGN KEY(file_comment_reply_id) REFERENCES file_comment_replies (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_invoice_id FOREIGN KEY(invoice_id) REFERENCES invoices (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_hook_id FOREIGN KEY(hook_id) REFERENCES hooks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_notifications_invitation_id FOREIGN KEY(invitation_id) REFERENCES invitations (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX ix_notifications_invitation_id ON notifications (invitation_id, user_id) WHERE invitation_id IS NOT NULL;

CREATE INDEX ix_notifications_user_id ON notifications (user_id, id);

CREATE INDEX ix_notifications_account_id ON notifications (account_id);

CREATE INDEX ix_notifications_created_at ON notifications (created_at);

CREATE INDEX ix_notifications_unread ON notifications (user_id, id) WHERE read_at IS NULL;

CREATE INDEX ix_notifications_read ON notifications (user_id, id) WHERE read_at IS NOT NULL;

CREATE INDEX ix_notifications_repository_id ON notifications (repository_id) WHERE repository_id IS NOT NULL;

CREATE INDEX ix_notifications_task_id ON notifications (task_id) WHERE task_id IS NOT NULL;

CREATE INDEX ix_notifications_task_comment_id ON notifications (task_comment_id) WHERE task_comment_id IS NOT NULL;

CREATE INDEX ix_notifications_file_comment_id ON notifications (file_comment_id) WHERE file_comment_id IS NOT NULL;

CREATE INDEX ix_notifications_file_comment_reply_id ON notifications (file_comment_reply_id) WHERE file_comment_reply_id IS NOT NULL;

CREATE INDEX ix_notifications_invoice_id ON notifications (invoice_id) WHERE invoice_id IS NOT NULL;

CREATE INDEX ix_notifications_hook_id ON notifications (hook_id) WHERE hook_id IS NOT NULL;

ALTER TABLE events ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE FUNCTION task_order_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.task_buckets (id, column_id, rank, size)
        VALUES (hashtextextended(new.id, 0) & ~(3::bigint << 62), new.id, 0, 0); RETURN NULL; END $$;

CREATE TRIGGER task_order_first AFTER INSERT ON columns FOR EACH ROW EXECUTE FUNCTION task_order_first();

CREATE FUNCTION task_order_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE public.task_buckets AS bucket SET size = bucket.size + counted.size
        FROM (SELECT bucket_id, count(*) AS size FROM touched GROUP BY bucket_id) AS counted
        WHERE bucket.id = counted.bucket_id;
        UPDATE public.columns SET revision = revision + 1 WHERE id IN
        (SELECT column_id FROM touched WHERE bucket_id IS NOT NULL); RETURN NULL; END $$;

CREATE TRIGGER task_order_insert AFTER INSERT ON tasks REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION task_order_insert();

CREATE FUNCTION task_order_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE public.task_buckets AS bucket SET size = bucket.size - counted.size
        FROM (SELECT bucket_id, count(*) AS size FROM touched GROUP BY bucket_id) AS counted
        WHERE bucket.id = counted.bucket_id;
        UPDATE public.columns SET revision = revision + 1 WHERE id IN
        (SELECT column_id FROM touched WHERE bucket_id IS NOT NULL); RETURN NULL; END $$;

CREATE TRIGGER task_order_delete AFTER DELETE ON tasks REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION task_order_delete();

CREATE FUNCTION task_order_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF old.bucket_id IS DISTINCT FROM new.bucket_id THEN
        UPDATE public.task_buckets SET size = size - 1 WHERE id = old.bucket_id;
        UPDATE public.task_buckets SET size = size + 1 WHERE id = new.bucket_id;
        END IF;
        UPDATE public.columns SET revision = revision + 1 WHERE id IN (old.column_id, new.column_id); RETURN NULL; END $$;

CREATE TRIGGER task_order_update AFTER UPDATE OF bucket_id, rank ON tasks FOR EACH ROW WHEN (old.bucket_id IS DISTINCT FROM new.bucket_id OR old.rank IS DISTINCT FROM new.rank) EXECUTE FUNCTION task_order_update();

CREATE FUNCTION timesheet_sums_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.timesheet_changes (repository_id, user_id, task_id, billable, invoiced, start_time, timesheets, duration_ms, amount_minor) SELECT new.repository_id, new.user_id, coalesce(new.task_id, ''), new.billable, new.invoice_id IS NOT NULL, new.start_time, 1, new.duration_ms, (CASE WHEN new.billable AND new.billable_rate_minor IS NOT NULL THEN (new.duration_ms / 3600000) * new.billable_rate_minor + ((new.duration_ms % 3600000) * new.billable_rate_minor + 1800000) / 3600000 ELSE 0 END) WHERE NOT new.is_active; RETURN NULL; END $$;

CREATE TRIGGER timesheet_sums_insert AFTER INSERT ON timesheets FOR EACH ROW EXECUTE FUNCTION timesheet_sums_insert();

CREATE FUNCTION timesheet_sums_delete() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.timesheet_changes (repository_id, user_id, task_id, billable, invoiced, start_time, timesheets, duration_ms, amount_minor) SELECT old.repository_id, old.user_id, coalesce(old.task_id, ''), old.billable, old.invoice_id IS NOT NULL, old.start_time, -1, -old.duration_ms, -(CASE WHEN old.billable AND old.billable_rate_minor IS NOT NULL THEN (old.duration_ms / 3600000) * old.billable_rate_minor + ((old.duration_ms % 3600000) * old.billable_rate_minor + 1800000) / 3600000 ELSE 0 END) WHERE NOT old.is_active; RETURN NULL; END $$;

CREATE TRIGGER timesheet_sums_delete AFTER DELETE ON timesheets FOR EACH ROW EXECUTE FUNCTION timesheet_sums_delete();

CREATE FUNCTION timesheet_sums_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.timesheet_changes (repository_id, user_id, task_id, billable, invoiced, start_time, timesheets, duration_ms, amount_minor) SELECT old.repository_id, old.user_id, coalesce(old.task_id, ''), old.billable, old.invoice_id IS NOT NULL, old.start_time, -1, -old.duration_ms, -(CASE WHEN old.billable AND old.billable_rate_minor IS NOT NULL THEN (old.duration_ms / 3600000) * old.billable_rate_minor + ((old.duration_ms % 3600000) * old.billable_rate_minor + 1800000) / 3600000 ELSE 0 END) WHERE NOT old.is_active; INSERT INTO public.timesheet_changes (repository_id, user_id, task_id, billable, invoiced, start_time, timesheets, duration_ms, amount_minor) SELECT new.repository_id, new.user_id, coalesce(new.task_id, ''), new.billable, new.invoice_id IS NOT NULL, new.start_time, 1, new.duration_ms, (CASE WHEN new.billable AND new.billable_rate_minor IS NOT NULL THEN (new.duration_ms / 3600000) * new.billable_rate_minor + ((new.duration_ms % 3600000) * new.billable_rate_minor + 1800000) / 3600000 ELSE 0 END) WHERE NOT new.is_active; RETURN NULL; END $$;

CREATE TRIGGER timesheet_sums_update AFTER UPDATE OF repository_id, user_id, task_id, start_time, duration_ms, is_active, billable, billable_rate_minor, invoice_id ON timesheets FOR EACH ROW WHEN (old.repository_id IS DISTINCT FROM new.repository_id OR old.user_id IS DISTINCT FROM new.user_id OR old.task_id IS DISTINCT FROM new.task_id OR old.start_time IS DISTINCT FROM new.start_time OR old.duration_ms IS DISTINCT FROM new.duration_ms OR old.is_active IS DISTINCT FROM new.is_active OR old.billable IS DISTINCT FROM new.billable OR old.billable_rate_minor IS DISTINCT FROM new.billable_rate_minor OR old.invoice_id IS DISTINCT FROM new.invoice_id) EXECUTE FUNCTION timesheet_sums_update();

CREATE FUNCTION search_fold(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT regexp_replace(normalize(regexp_replace(normalize(value, NFD), '([A-Za-z])[\u0300-\u036f]+', '\1', 'g'), NFC), '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u206f\u20a0-\u20cf\u2190-\u245f\u2500-\u2bff\u3000-\u3004\u3008-\u3020\u3030\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff]+', ' ', 'g') $$;

CREATE FUNCTION search_spelled(value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT lower(translate(replace(replace(replace(replace(replace(replace(public.search_fold(value), 'ß', 'ss'), 'ẞ', 'ss'), 'æ', 'ae'), 'Æ', 'ae'), 'œ', 'oe'), 'Œ', 'oe'), 'øØłŁđĐı', 'oollddi')) $$;

CREATE FUNCTION search_terms(words text, parts text, number bigint) RETURNS tsvector LANGUAGE plpgsql COST 10000 IMMUTABLE PARALLEL SAFE AS $$ 
DECLARE found tsvector := to_tsvector('pg_catalog.simple', public.search_spelled(words));
BEGIN
  IF parts <> '' THEN
    found := found || array_to_tsvector(array(
      SELECT '~' || substr(word, at, 64)
      FROM unnest(string_to_array(public.search_spelled(left(parts, 512)), ' ')) AS word,
        generate_series(1, length(word) - 2) AS at));
  END IF;
  IF number > 0 THEN
    found := found || array_to_tsvector(ARRAY['ʹ' || number]);
  END IF;
  RETURN found;
END $$;

CREATE FUNCTION search_asked(value text, parts boolean, numbers boolean) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ 
SELECT string_agg(
  CASE WHEN word LIKE 'ʹ_%' THEN
    CASE WHEN numbers THEN quote_literal(word) ELSE quote_literal(substr(word, 2)) END
  ELSE '(' || coalesce(nullif(to_tsquery('pg_catalog.simple', word || CASE WHEN at = count THEN ':*' ELSE '' END)::text,
      ''), quote_literal(left(word, 255)))
    || CASE WHEN parts AND length(word) BETWEEN 3 AND 64 THEN ' | ' || quote_literal('~' || word) || ':*'
       ELSE '' END
    || CASE WHEN numbers AND word ~ '^[0-9]+$' THEN ' | ' || quote_literal('ʹ' || ltrim(word, '0')) ELSE '' END
    || ')'
  END, ' & ')::tsquery
FROM (
  SELECT word, at, count(*) OVER ()
  FROM unnest(string_to_array(btrim(public.search_spelled(value)), ' ')) WITH ORDINALITY AS every(word, at)
  WHERE word <> '') AS words $$;

CREATE INDEX search_tasks ON tasks USING gin (search_terms(coalesce(title, '') || ' ' || coalesce(description, ''), coalesce(title, ''), number));

CREATE INDEX search_files ON files USING gin (search_terms(coalesce(title, ''), coalesce(title, ''), 0));

CREATE INDEX search_task_comments ON task_comments USING gin (search_terms(coalesce(text, ''), '', 0));

CREATE INDEX search_file_comments ON file_comments USING gin (search_terms(coalesce(text, ''), '', 0));

CREATE INDEX search_file_comment_replies ON file_comment_replies USING gin (search_terms(coalesce(plain_body, ''), '', 0));

CREATE INDEX search_invoices ON invoices USING gin (search_terms(coalesce(invoice_number, '') || ' ' || coalesce((buyer::json ->> 'name'), '') || ' ' || coalesce(bill_to, ''), coalesce(invoice_number, '') || ' ' || coalesce((buyer::json ->> 'name'), '') || ' ' || coalesce(bill_to, ''), 0));

CREATE INDEX search_credit_notes ON credit_notes USING gin (search_terms(coalesce(credit_note_number, '') || ' ' || coalesce(reason, ''), coalesce(credit_note_number, ''), 0));
